"""Figure 1 as a run: the regression's loss and steps, WAFFLE's three rounds, and what is told."""

import numpy as np
import pytest
import torch

from pfl_lib.methods import FedAvg, Local, Waffle
from pfl_lib.papers.waffle import figure_1


@pytest.fixture(scope="module")
def path() -> figure_1.Path:
    return figure_1.play(Waffle())


@pytest.fixture(scope="module")
def fedavg() -> figure_1.Path:
    return figure_1.play(FedAvg("uniform"))


def test_the_models_cross_entropy_is_squared_error():
    """a = (1, 2), b = 3 at theta = (2, 2): (6 - 3)^2 / 2 = 4.5, and 1 more."""
    model = figure_1.Regression().double()
    with torch.no_grad():
        model.theta.copy_(torch.tensor([2.0, 2.0]))
    x = torch.tensor([[1.0, 2.0, 3.0]]).double()
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([0]))
    assert loss.item() == pytest.approx(5.5)


def test_local_steps_are_gradient_descent_on_all_of_a_clients_examples(path):
    """Round 1 has no control variates: theta <- theta - lr mean_j a_j (a_j . theta - b_j)."""
    for i, best in enumerate(figure_1.BEST):
        theta, rows = np.zeros(2), np.array(figure_1.INPUTS[i])
        for step in range(figure_1.STEPS + 1):
            np.testing.assert_allclose(path.local[0, i, step], theta, atol=1e-9)
            gradient = rows.T @ (rows @ (theta - np.array(best))) / len(rows)
            theta = theta - figure_1.LR * gradient


def test_each_rounds_model_is_the_weighted_mean_of_where_the_clients_came_to(path):
    ends = np.einsum("rc,rcd->rd", path.weights, path.local[:, :, -1])
    np.testing.assert_allclose(ends, path.models[1:], atol=1e-9)
    np.testing.assert_allclose(path.local[:, :, 0], np.repeat(path.models[:-1, None], 3, 1))
    np.testing.assert_allclose(path.weights.sum(1), 1)


def test_client_1_outweighs_client_2_and_alice_gains(path):
    assert (path.weights[:, 1] > path.weights[:, 2]).all()
    assert (np.diff(path.weights[:, 0]) > 0).all()
    # The farthest client's own weight is 0 in every round; what it has is the start's 1/3.
    np.testing.assert_allclose(path.weights[:, 2], [2 / 9, 1 / 9, 0], atol=1e-12)
    apart = figure_1.apart(path)
    assert (apart[1:] < apart[0] / 2).all()


def test_fedavg_weighs_all_alike_and_ends_farther_from_alice(path, fedavg):
    np.testing.assert_allclose(fedavg.weights, 1 / 3)
    assert fedavg.local is None
    assert figure_1.from_best(path)[-1] < figure_1.from_best(fedavg)[-1]
    alone = figure_1.play(Local())
    assert alone.models.shape == (4, 2)
    assert figure_1.from_best(alone)[-1] < figure_1.from_best(path)[-1]


def test_the_sentence_and_the_table_hold_the_same_numbers(path, fedavg):
    said = figure_1.answer(path, fedavg)
    numbers = figure_1.by_round(path, {"FedAvg": fedavg})
    assert numbers["round"].tolist() == [0, 1, 2, 3]
    last = numbers.iloc[-1]
    assert said.startswith("In rounds 1 to 3 client 1 has weight ")
    assert "client 2 has weight 0.22, 0.11, 0.00. The personalised model starts 4.12 from" in said
    assert f"ends {last['WAFFLE: distance']:.2f} from it;" in said
    assert said.endswith(f"ends {last['FedAvg: distance']:.2f} from it.")


def test_the_picture_has_every_step_and_its_alt_text_the_same_models(path, fedavg):
    figure, alt = figure_1.draw(path, fedavg)
    drawn = {line.get_label(): line.get_xydata() for line in figure.axes[0].get_lines()}
    np.testing.assert_allclose(drawn["WAFFLE, personalised model"], path.models)
    np.testing.assert_allclose(drawn["FedAvg"], fedavg.models)
    widths = {line.get_linewidth() for line in figure.axes[0].get_lines()}
    assert {1 + 6 * weight for weight in path.weights.ravel()} <= widths
    assert "client 2's best model is (−1.0, 3.4)" in alt and "-" not in alt


def test_no_profile_changes_the_page():
    assert {profile.data for profile in figure_1.PROFILES.values()} == {
        figure_1.PROFILES["quick"].data
    }
    assert all(not profile.made for profile in figure_1.PROFILES.values())
