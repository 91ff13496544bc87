"""SCAFFOLD: two rounds by hand with unequal numbers of steps, and the laws of its control
variates.
"""

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods import FedAvg, Local, Scaffold, Waffle

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2; a step is y <- y - (y - point - c_i + c) / 2; client 0 takes K = 2 steps, client 1
    takes one.

    Round 1, x = 0, c = c_0 = c_1 = 0.
      client 0: gradients (-4,0) at (0,0) and (2,-4) at (2,0); y_0 = (1,2); c_0 = their mean =
      (-1,-2) = (x - y_0)/(2/2). client 1: gradient (-8,4); y_1 = (4,-2); c_1 = (-8,4). x = (2.5,
      0);  c = (-4.5, 1).
    Round 2.
      client 0, c - c_0 = (-3.5, 3): gradient (2.5,0)-(4,0) = (-1.5,0), y = (2.5,0) - (-5,3)/2 =
      (5,-1.5);
        gradient (5,-1.5)-(0,4) = (5,-5.5), y_0 = (5,-1.5) - (1.5,-2.5)/2 = (4.25,-.25);  c_0 =
        (1.75,-2.75). Option II agrees: c_0 - c + (x - y_0)/(2/2) = (3.5,-3) + (-1.75,.25) =
        (1.75,-2.75).
      client 1, c - c_1 = (3.5,-3): gradient (2.5,0)-(8,-4) = (-5.5,4), y_1 = (2.5,0) - (-2,1)/2 =
      (3.5,-.5);  c_1 = (-5.5,4). x = (3.875, -.375);  c = (-1.875, .625).
    """
    (first, _), (second, log) = play(Scaffold(), pencil(POINTS))
    exactly(first["theta"], [2.5, 0])
    exactly(first["controls"], [[-1, -2], [-8, 4]])
    exactly(first["control"], [-4.5, 1])
    exactly(second["theta"], [3.875, -0.375])
    exactly(second["controls"], [[1.75, -2.75], [-5.5, 4]])
    exactly(second["control"], [-1.875, 0.625])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 4  # a model and a control variate each


def test_two_rounds_of_option_i_by_hand(pencil, play, exactly):
    """As above; c_i is the client's gradient at x, the mean over its points of x - point.

    Round 1: y_0 = (1,2), y_1 = (4,-2), x = (2.5,0) as above; c_0 = (-2,-2), c_1 = (-8,4), c =
    (-5,1).
    Round 2.
      client 0, c - c_0 = (-3,3): gradient (-1.5,0), y = (2.5,0) - (-4.5,3)/2 = (4.75,-1.5);
        gradient (4.75,-5.5), y_0 = (4.75,-1.5) - (1.75,-2.5)/2 = (3.875,-.25);  c_0 = (2.5,0) -
        (2,2) = (.5,-2).
      client 1, c - c_1 = (3,-3): gradient (-5.5,4), y_1 = (2.5,0) - (-2.5,1)/2 = (3.75,-.5);  c_1 =
        (-5.5,4). x = (3.8125,-.375);  c = (-2.5,1).
    """
    (first, _), (second, log) = play(Scaffold("I"), pencil(POINTS))
    exactly(first["theta"], [2.5, 0])
    exactly(first["controls"], [[-2, -2], [-8, 4]])
    exactly(first["control"], [-5, 1])
    exactly(second["theta"], [3.8125, -0.375])
    exactly(second["controls"], [[0.5, -2], [-5.5, 4]])
    exactly(second["control"], [-2.5, 1])
    assert log["models_up"] == log["models_down"] == 4


def test_a_clipped_round_by_hand(pencil, play, exactly):
    """Norms of at most 2: (-4,0) becomes (-2,0), y = (1,0); (1,-4) becomes 2 (1,-4) / sqrt(17), y_0
    = (1 - 1/sqrt(17), 4/sqrt(17)); c_0 is the mean of the clipped ones.  Client 1: (-8,4) becomes
    2 (-8,4) / sqrt(80).
    """
    [(after, _)] = play(Scaffold(clip=2.0), pencil(POINTS, rounds=1))
    a, b = 17**-0.5, 80**-0.5
    exactly(after["controls"], [[-1 + a, -4 * a], [-16 * b, 8 * b]])
    exactly(after["theta"], [(1 - a + 8 * b) / 2, (4 * a - 4 * b) / 2])
    [(after, _)] = play(Scaffold("I", clip=2.0), pencil(POINTS, rounds=1))
    exactly(after["controls"], [[-1, -1], [-16 * b, 8 * b]])


@pytest.mark.parametrize("option", ["I", "II"])
def test_a_norm_that_no_gradient_reaches_changes_no_bit(small, play, option):
    fed = small(dtype=torch.float32, **MOMENTUM)
    for (one, _), (other, _) in zip(
        play(Scaffold(option), fed), play(Scaffold(option, clip=1e6), fed), strict=True
    ):
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("option", ["I", "II"])
def test_control_variates_are_no_longer_than_the_norm_that_clips(small, play, option):
    for state, _ in play(Scaffold(option, clip=0.1), small(lr=30.0)):
        assert (state["controls"].norm(dim=1) <= 0.1 * (1 + 1e-12)).all()
        assert state["theta"].isfinite().all()


def test_both_options_agree_where_a_round_is_one_batch_of_all_data(small, play):
    fed = small(batch_size=9)
    for (one, _), (other, _) in zip(
        play(Scaffold("I"), fed), play(Scaffold("II"), fed), strict=True
    ):
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"local_epochs": 3}], ids=str)
def test_option_i_is_the_gradient_at_the_servers_model_however_training_goes(small, play, settings):
    """One client's mean over all her examples: neither batches nor momentum nor epochs enter."""
    [(state, _)] = play(Scaffold("I"), small(rounds=1, **settings))
    [(whole, _)] = play(Scaffold("II"), small(rounds=1, batch_size=9))
    torch.testing.assert_close(state["controls"], whole["controls"], rtol=1e-12, atol=1e-12)


def test_option_i_reads_no_statistic_and_writes_none(small, play):
    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

    fed = small(batch_size=3, model=normed)
    [(one, _)] = play(Scaffold("I"), fed, rounds=1)
    [(other, _)] = play(Scaffold("II"), fed, rounds=1)
    assert torch.equal(one["statistics"], other["statistics"])
    assert torch.equal(one["theta"], other["theta"])


def test_correction_comes_before_weight_decay_and_momentum_by_hand(pencil, play, exactly):
    """v <- v/2 + (g + c - c_0 + y/4), y <- y - v/2, from c = (1,0) and c_0 = (0,1), so the
    correction is (1,-1).

    g = (-4,0), v = (-3,-1), y = (1.5,.5); g = (1.5,-3.5), v = (-1.5,-.5) + (2.5,-4.5) + (.375,.125)
    = (1.375,-4.875), y = (.8125,2.9375). c_0 is the mean of the raw gradients, (-1.25,-1.75),
    whatever momentum and weight decay did to y.
    """
    fed = pencil([POINTS[0]], rounds=1, momentum=0.5, weight_decay=0.25)
    state = {
        **fed.initial(),
        "control": torch.tensor([1.0, 0.0], dtype=torch.float64),
        "controls": torch.tensor([[0.0, 1.0]], dtype=torch.float64),
    }
    [(after, _)] = play(Scaffold(), fed, state=state)
    exactly(after["theta"], [0.8125, 2.9375])
    exactly(after["controls"], [[-1.25, -1.75]])


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_control_variates_frozen_at_zero_give_fedavg_bit_for_bit(small, settings, option):
    fed = small(dtype=torch.float32, **settings)
    scaffold, fedavg = Scaffold(option), FedAvg(weighting="uniform")
    state, plain = scaffold.start(fed), fedavg.start(fed)
    for r in range(1, 5):
        state, plain = scaffold.round(fed, state, r)[0], fedavg.round(fed, plain, r)[0]
        assert torch.equal(state["theta"], plain["theta"])
        assert state["controls"].any()
        state |= {"control": fed.zeros(), "controls": fed.zeros(len(fed))}


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_one_client_is_local_training_bit_for_bit(small, play, settings, option):
    fed = small(clients=1, dtype=torch.float32, **settings)
    for (scaffold, _), (local, _) in zip(
        play(Scaffold(option), fed), play(Local(), fed), strict=True
    ):
        assert torch.equal(scaffold["theta"], local["theta"][0])


def test_corrections_change_the_second_round(small, play):
    """The trap: variates that are never stored, or never applied, leave FedAvg."""
    fed = small()
    (first, _), (second, _) = play(Scaffold(), fed, rounds=2)
    (plain, _), (next_plain, _) = play(FedAvg("uniform"), fed, rounds=2)
    assert first["controls"].any(1).all()
    torch.testing.assert_close(first["theta"], plain["theta"], rtol=1e-12, atol=1e-12)
    assert (second["theta"] - next_plain["theta"]).abs().max() > 1e-3


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_server_variate_is_the_mean_of_all_clients_variates(small, play, participation, option):
    """c <- c + |S|/N mean of the participants' changes, as the paper has it, keeps c the mean of
    all c_i.
    """
    fed = small(clients=6, alice=None, rounds=8, participation=participation)
    before = Scaffold().start(fed)
    for r, (state, _) in enumerate(play(Scaffold(option), fed), start=1):
        there = fed.participants(r)
        papers = before["control"] + len(there) / 6 * (state["controls"] - before["controls"])[
            there
        ].mean(0)
        torch.testing.assert_close(state["control"], papers, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            state["control"], state["controls"].mean(0), rtol=1e-12, atol=1e-12
        )
        away = [i for i in range(6) if i not in there]
        assert torch.equal(state["controls"][away], before["controls"][away])
        before = state


def trained_by(fed) -> list:
    """All that `fed.train` returns from now on."""
    trained, train = [], fed.train
    fed.train = lambda *args, **kw: trained.append(train(*args, **kw)) or trained[-1]
    return trained


def test_without_momentum_the_variates_are_option_ii(small, play):
    """c_i <- c_i - c + (x - y_i) / (K_i lr), with every client's own number of steps and the
    round's learning rate.
    """
    fed = small(local_epochs=2, lr_decay=0.8)
    trained = trained_by(fed)
    before = Scaffold().start(fed)
    for r, (state, _) in enumerate(play(Scaffold(), fed), start=1):
        rows, steps = trained[r - 1]
        assert steps.tolist() == [
            6,
            10,
            4,
            8,
        ]  # two epochs of 5, 9, 3, 8 examples in batches of two
        option = before["controls"] - before["control"]
        option = option + (before["theta"] - rows["theta"]) / (
            steps[:, None] * fed.schedule.lr_at(r)
        )
        torch.testing.assert_close(state["controls"], option, rtol=1e-10, atol=1e-10)
        before = state


def test_with_momentum_the_variates_stay_mean_gradients(small, play):
    """(x - y)/(K lr) overestimates the gradient when momentum carries steps on; the mean of raw
    gradients does not.
    """
    fed = small(repeat=True, momentum=0.9, lr=0.01, rounds=1, local_epochs=20)
    trained = trained_by(fed)
    [(state, _)] = play(Scaffold(), fed)
    [(rows, steps)] = trained
    option = (fed.initial()["theta"] - rows["theta"]) / (steps[:, None] * 0.01)
    assert (option.norm(dim=1) > 3 * state["controls"].norm(dim=1)).all()


def test_control_variates_leave_running_statistics_alone(small, play):
    fed = small(
        batch_size=3,
        model=lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    )
    (state, _), *_ = play(Scaffold(), fed, rounds=1)
    assert state["controls"].shape == (4, fed.layout.P)
    assert state["statistics"].shape == (10,)


def test_newcomers_start_with_a_variate_of_zero(small, play):
    fed = small(alice=None, availability=((3, 3, 4),))
    states = [state for state, _ in play(Scaffold(), fed)]
    assert [bool(state["controls"][3].any()) for state in states] == [False, False, True, True]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"option": "III"}, "option 'III' is not one of I, II: did you mean II?"),
        ({"option": 2}, "option 2 is not one of I, II"),
        ({"clip": 0}, "clip 0: give a norm above 0, or None"),
        ({"clip": "1"}, "clip '1': give a norm above 0, or None"),
    ],
)
@pytest.mark.parametrize("method", [Scaffold, Waffle])
def test_bad_hyper_parameters_are_refused(method, wrong, sentence):
    with pytest.raises(BadInput) as refused:
        method(**wrong)
    assert str(refused.value) == sentence
