"""FedBN, FedRep and LG-FedAvg: rounds by hand, what stays and what is averaged, and what they are
at their ends.
"""

import pytest
import torch
from torch import nn

from pfl_lib import BadInput, Federation, Schedule, models
from pfl_lib.methods import FedAvg, FedBN, FedRep, LGFedAvg, Local
from pfl_lib.methods.lg_fedavg import representation

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


def same_as_fedavg(fed: Federation, method, weighting: str, play) -> None:
    """Every client's row is FedAvg's model, bit for bit."""
    for (mine, log), (theirs, fedavgs) in zip(
        play(method, fed), play(FedAvg(weighting), fed), strict=True
    ):
        for name, row in theirs.items():
            assert torch.equal(mine[name], row.expand_as(mine[name]))
        assert torch.equal(log["weights"], fedavgs["weights"])
        assert log["models_up"] == fedavgs["models_up"]


# --- LG-FedAvg ---


def test_lg_fedavg_two_rounds_by_hand(pencil, two_layers, play, exactly):
    """Steps theta <- (theta + point) / 2, sizes 2 and 1; "lower" stays, "upper" is averaged.

    Round 1: y_0: (0,0) -> (2,0) -> (1,2);  y_1: (4,-2);  upper (2*2 - 2)/3 = 2/3.
    Round 2: y_0: (1,2/3) -> (5/2,1/3) -> (5/4,13/6);  y_1: (4,2/3) -> (6,-5/3);
      upper (13/3 - 5/3)/3 = 8/9.  Half of the parameters is sent.
    """
    fed = pencil(POINTS, alice=None, model=two_layers)
    (first, log), (second, _) = play(LGFedAvg(), fed)
    exactly(first["theta"], [[1, 2 / 3], [4, 2 / 3]])
    exactly(second["theta"], [[5 / 4, 8 / 9], [6, 8 / 9]])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 1


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"participation": 0.5}], ids=str)
def test_lg_fedavg_with_all_layers_averaged_is_fedavg_bit_for_bit(small, play, settings, weighting):
    fed = small(dtype=torch.float32, alice=None, batch_size=3, model=normed, **settings)
    same_as_fedavg(fed, LGFedAvg((), weighting), weighting, play)


@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"participation": 0.5}], ids=str)
def test_lg_fedavg_with_all_layers_local_is_local_training_bit_for_bit(small, play, settings):
    fed = small(dtype=torch.float32, alice=None, batch_size=3, model=normed, **settings)
    for (mine, log), (theirs, _) in zip(
        play(LGFedAvg(("0", "1", "3")), fed), play(Local(), fed), strict=True
    ):
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
        assert log["models_up"] == log["models_down"] == 0


@pytest.mark.parametrize(
    ("model", "lower", "upper"),
    [
        ("lenet5", ["conv1", "conv2"], ["fc1", "fc2", "fc3"]),
        ("pfedla_cnn", ["conv1", "conv2"], ["fc1", "fc2", "fc3"]),
        ("pfedla_cnn-norm", ["conv1", "norm1", "conv2", "norm2"], ["fc1", "fc2", "fc3"]),
        ("tf_cnn", ["conv1", "conv2", "conv3"], ["fc1", "fc2"]),
    ],
)
def test_lg_fedavg_averages_the_fully_connected_end(model, lower, upper):
    """The trap: an implementation that shares the wrong end of the network."""
    data = [(torch.randn(2, 1, 28, 28), torch.tensor([0, k])) for k in (1, 2)]
    network = lambda: models.build(model, (1, 28, 28), 10)  # noqa: E731
    fed = Federation.from_arrays(data, data, network, Schedule(1, lr=0.1), device="cpu")
    assert representation(fed.layout) == lower
    state, _ = LGFedAvg().round(fed, LGFedAvg().start(fed), 1)
    for name in upper:
        one, other = state["theta"][:, fed.layout.columns([name])]
        assert torch.equal(one, other)
    for name in lower:
        one, other = state["theta"][:, fed.layout.columns([name])]
        assert not torch.equal(one, other)


def test_without_convolutions_all_but_the_last_layer_is_the_representation(small):
    assert representation(small().layout) == ["0"]
    assert representation(small(model=normed, batch_size=3).layout) == ["0", "1"]


# --- FedRep ---


def test_fedrep_two_rounds_by_hand(pencil, two_layers, play, exactly):
    """Steps theta <- (theta + point) / 2; "upper" is the head.  Two local epochs: one moves the
    head alone, one the body alone.  Sizes 2 and 1.

    Round 1: head of 0: 0 -> 0 -> 2, body 0 -> 2 -> 1;  of 1: head -2, body 4.
      body (2*1 + 4)/3 = 2.
    Round 2: head of 0: 2 -> 1 -> 5/2, body 2 -> 3 -> 3/2;  of 1: head -3, body 5.
      body (3 + 5)/3 = 8/3.
    """
    fed = pencil(POINTS, alice=None, model=two_layers, local_epochs=2)
    (first, log), (second, _) = play(FedRep(), fed)
    exactly(first["theta"], [[2, 2], [2, -2]])
    exactly(second["theta"], [[8 / 3, 5 / 2], [8 / 3, -3]])
    assert log["models_up"] == log["models_down"] == 1


def test_the_heads_batches_are_drawn_apart_from_the_bodys(small):
    fed = small(alice=None, local_epochs=2)
    purposes, train = [], fed.train
    fed.train = lambda *a, **kw: purposes.append(kw.get("purpose", "batches")) or train(*a, **kw)
    FedRep().round(fed, FedRep().start(fed), 1)
    assert len(purposes) == len(set(purposes)) == 2


@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_the_head_trains_on_the_received_body_and_then_the_body_under_the_new_head(small, settings):
    """Ten local epochs are nine of the head and one of the body; what does not train does not
    move, by weight decay neither.
    """
    fed = small(alice=None, local_epochs=10, lr=0.05, **settings)
    calls, train = [], fed.train
    fed.train = lambda rows, *a, **kw: calls.append((rows, *train(rows, *a, **kw))) or calls[-1][1:]
    state = FedRep().start(fed)
    for r in (1, 2):
        calls.clear()
        after, _ = FedRep().round(fed, state, r)
        body, head = (fed.layout.columns([name]) for name in ("0", "2"))
        (given, new_head, steps), (from_head, trained, body_steps) = calls
        assert torch.equal(given["theta"], state["theta"])
        assert torch.equal(new_head["theta"][:, body], given["theta"][:, body])
        assert (new_head["theta"][:, head] != given["theta"][:, head]).all()
        assert torch.equal(from_head["theta"], new_head["theta"])
        assert torch.equal(trained["theta"][:, head], new_head["theta"][:, head])
        assert (trained["theta"][:, body] != new_head["theta"][:, body]).any()
        assert torch.equal(steps, 9 * body_steps)
        assert body_steps.tolist() == [3, 5, 2, 4]  # batches of 2 of 5, 9, 3, 8 examples
        assert torch.equal(after["theta"][:, head], trained["theta"][:, head])
        shared = after["theta"][:, body]
        assert torch.equal(shared, shared[:1].expand_as(shared))
        state = after


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize(
    "settings", [{}, MOMENTUM, {"participation": 0.5}, {"local_batches": 3}], ids=str
)
def test_fedrep_without_a_head_is_fedavg_bit_for_bit(small, play, settings, weighting):
    fed = small(dtype=torch.float32, alice=None, batch_size=3, model=normed, **settings)
    same_as_fedavg(fed, FedRep((), weighting=weighting), weighting, play)


def test_fedrep_of_heads_alone_shares_nothing(small, play):
    fed = small(alice=None)
    state, log = play(FedRep(head=("0", "2")), fed)[-1]
    assert log["models_up"] == 0
    assert len(state["theta"].unique(dim=0)) == 4


def test_a_schedule_of_one_epoch_gives_one_to_each_part(small):
    fed = small(alice=None)
    steps, train = [], fed.train
    fed.train = lambda *a, **kw: (found := train(*a, **kw), steps.append(found[1]))[0]
    FedRep().round(fed, FedRep().start(fed), 1)
    assert [one.tolist() for one in steps] == [[3, 5, 2, 4]] * 2
    assert FedRep().cost(1, 1.0) == 2 and FedRep().cost(10, 1.0) == 10
    assert FedRep(head=()).cost(1, 1.0) == 1


def test_fedrep_by_batches_instead_of_epochs_is_refused(small):
    with pytest.raises(BadInput, match="^local_batches 3: FedRep divides local epochs between"):
        FedRep().start(small(local_batches=3))


# --- FedBN ---


class Normed(nn.Module):
    """Two numbers a and b: b is the bias of a norm over one entry, which gives its bias whatever
    enters it.  theta = (a, scale, b), and the scale has no gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.a.weight)
        self.odd = nn.LayerNorm(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        theta = torch.cat([self.a.weight[0], self.odd(self.a.weight[0])])
        q = 1 + (theta - x).square().sum(-1) / 2
        return torch.stack([torch.zeros_like(q), q + torch.log(-torch.expm1(-q))], -1)


def test_fedbn_two_rounds_by_hand(pencil, play, exactly):
    """Steps (a, b) <- ((a, b) + point) / 2; a is averaged, scale and bias b of the norm stay.

    Round 1: (2, 2) and (-1, 4): a = 1/2.  Round 2: from (1/2, 2): (9/4, 3), from (1/2, 4):
      (-3/4, 6): a = 3/4.  One of three parameters is sent.
    """
    fed = pencil([[(4, 4)], [(-2, 8)]], alice=None, model=Normed)
    (first, log), (second, _) = play(FedBN(), fed)
    exactly(first["theta"], [[1 / 2, 1, 2], [1 / 2, 1, 4]])
    exactly(second["theta"], [[3 / 4, 1, 3], [3 / 4, 1, 6]])
    assert log["models_up"] == log["models_down"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"participation": 0.5}], ids=str)
def test_the_first_round_is_fedavgs_but_for_the_norms(small, settings, weighting):
    """Parameters outside norms are FedAvg's bit for bit; norms and their running statistics are
    those of the clients' own training, and of the initial model where a client was not drawn.
    """
    fed = small(dtype=torch.float32, alice=None, batch_size=3, model=normed, **settings)
    method, fedavg = FedBN(weighting), FedAvg(weighting)
    mine, _ = method.round(fed, method.start(fed), 1)
    theirs, _ = fedavg.round(fed, fedavg.start(fed), 1)
    alone, _ = Local().round(fed, Local().start(fed), 1)
    others, norm = fed.layout.columns(["0", "3"]), fed.layout.columns(["1"])
    assert torch.equal(mine["theta"][:, others], theirs["theta"][others].expand(4, -1))
    assert torch.equal(mine["theta"][:, norm], alone["theta"][:, norm])
    assert torch.equal(mine["statistics"], alone["statistics"])
    assert not torch.equal(mine["statistics"][0], mine["statistics"][1])


@pytest.mark.parametrize(
    "norm", [lambda: nn.LayerNorm(5), lambda: nn.GroupNorm(1, 5), lambda: nn.BatchNorm1d(5)]
)
def test_norms_are_found_by_their_type(small, play, norm):
    """The trap: norms found by the name "bn" alone."""
    model = lambda: nn.Sequential(nn.Linear(4, 5), norm(), nn.Tanh(), nn.Linear(5, 3))  # noqa: E731
    fed = small(alice=None, batch_size=3, model=model)
    state, log = play(FedBN(), fed)[-1]
    kept, shared = fed.layout.columns(["1"]), fed.layout.columns(["0", "3"])
    assert len(state["theta"][:, kept].unique(dim=0)) == 4
    assert len(state["theta"][:, shared].unique(dim=0)) == 1
    assert log["models_up"] == pytest.approx(4 * (1 - 10 / fed.layout.P))


def test_fedbn_on_a_network_without_norms_is_refused(small):
    """The trap: without norms FedBN is FedAvg, silently."""
    with pytest.raises(BadInput, match="^FedBN keeps the norms of a network with its clients, and"):
        FedBN().start(small())


# --- bad input ---


@pytest.mark.parametrize(("method", "setting"), [(FedRep, "head"), (LGFedAvg, "local")])
def test_layers_are_named_in_a_tuple_each_once_and_exist(small, method, setting):
    for names, sentence in (
        ("fc3", r"'fc3': give a tuple of layers' names, such as \(\"fc3\",\)$"),
        ((1,), r"\(1,\): give a tuple of layers' names"),
        (("0", "0"), r"\('0', '0'\): name each layer once$"),
    ):
        with pytest.raises(BadInput, match=f"^{setting} {sentence}"):
            method(**{setting: names})
    with pytest.raises(BadInput, match="^layer 'fc3' is not one of 0, 2$"):
        method(**{setting: ("fc3",)}).start(small())


@pytest.mark.parametrize("method", [FedRep, LGFedAvg, FedBN])
def test_an_unknown_weighting_is_refused(method):
    with pytest.raises(BadInput, match="^weighting 'sizes' .*uniform: did you mean size\\?$"):
        method(weighting="sizes")
