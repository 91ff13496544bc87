"""A client whose training ends in NaN or infinity: without weight, or the run diverges."""

import functools

import pytest
import torch

from pfl_lib import Federation, Schedule
from pfl_lib.experiments.training import Run
from pfl_lib.methods import FedAvg, FedFomo, Scaffold, Waffle, WeightErosion
from tests.experiments.common import drawn, finished, with_lost

federation = functools.partial(with_lost, since=1)


@pytest.mark.parametrize(
    "method", [WeightErosion(p_d=0.1), Waffle(), Waffle(control="literal")], ids=repr
)
@pytest.mark.parametrize("since", [1, 4])
def test_a_lost_client_has_no_weight_and_the_run_goes_on(method, since):
    run = finished(Run(method, federation(2, since=since)))
    assert run.diverged is None and run.done == 8 and run.non_finite == {2: since}
    weights = torch.stack(run.weights)
    assert weights.isfinite().all() and (weights[:, 2] == 0).all()
    assert (weights[0, [1, 3]] > 0).all()
    assert all(row["loss"] < 10 for row in run.metrics)


@pytest.mark.parametrize("method", [WeightErosion(p_d=0.1), Waffle(), FedFomo(n=4)], ids=repr)
def test_a_client_whose_running_statistics_alone_are_infinite_has_no_weight(method):
    """Inputs of 1e20, a fill value: their variance overflows, what BatchNorm makes of them not."""
    data = [(x * 1e20 if i == 3 else x, y) for i, (x, y) in enumerate(drawn(4))]
    make = lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))  # noqa: E731
    held = {"test": data[:1] * 4, "validation": data[:1] * 4, "alice": 0, "device": "cpu"}
    fed = Federation.from_arrays(data, model=make, schedule=Schedule(3), **held)
    run = finished(Run(method, fed))
    assert run.diverged is None and run.non_finite == {3: 1}
    assert all(of[..., :3, 3].sum() == 0 if of.dim() == 2 else of[3] == 0 for of in run.weights)


def test_weight_erosion_with_a_lost_client_is_weight_erosion_without_it():
    with_it = finished(Run(WeightErosion(p_d=0.1), federation(3)))
    without = finished(Run(WeightErosion(p_d=0.1), federation(clients=3)))
    assert torch.equal(torch.stack(with_it.weights)[:, :3], torch.stack(without.weights))
    torch.testing.assert_close(with_it.state["theta"], without.state["theta"], rtol=1e-5, atol=1e-6)


def test_waffles_weights_of_the_others_are_those_without_the_lost_client():
    """Unsmoothed weights of round 1; smoothed, the history of 1/N enters, with N = 4: those of the
    others are (1/4 + 1/4 + w_i) / (3/2 + 1).
    """
    fed, fewer = federation(3), federation(clients=3)
    method = Waffle()
    after, log = method.round(fed, method.start(fed), 1)
    expected, _ = method.round(fewer, method.start(fewer), 1)
    now = after["history"][1]
    assert torch.equal(now[:3], expected["history"][1]) and now[3] == 0
    torch.testing.assert_close(log["weights"][:3], (0.5 + now[:3]) / 2.5, rtol=0, atol=1e-15)
    assert after["control"].isfinite().all() and after["theta"].isfinite().all()
    assert (after["controls"][3] == 0).all(), "it keeps the control variate it had"


def test_a_client_that_was_lost_once_counts_again_for_waffle():
    """Client 1's local training is lost in round 3 alone."""
    fed, method = federation(), Waffle()
    state = method.start(fed)
    earlier, train = state["controls"][1], fed.train

    def spoilt(rows, round, clients, *args, **kwargs):
        trained, steps = train(rows, round, clients, *args, **kwargs)
        if round == 3:
            trained["theta"][1] = float("nan")
        return trained, steps

    fed.train = spoilt
    for r in range(1, 5):
        state, log = method.round(fed, state, r)
        assert (log["weights"][1] == 0) == (r == 3) and state["theta"].isfinite().all()
        control = state["controls"][1]
        assert control.isfinite().all() and torch.equal(control, earlier) == (r == 3)
        earlier = control


def test_where_it_counts_the_run_diverges_and_names_the_client():
    for method, lost in (
        *((WeightErosion(p_d=0.1), 0), (Waffle(), 0), (FedAvg(), 2), (Scaffold(), 2)),
        (WeightErosion(p_d=0.0), 2),
    ):
        run = finished(Run(method, federation(lost)))
        assert run.diverged == 1 and run.non_finite == {lost: 1}
