"""FedBN, FedRep and LG-FedAvg: rounds by hand, what stays and what is averaged."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from pfl_lib import Federation, Schedule, models
from pfl_lib.engine.layout import Layout
from pfl_lib.methods import FedBN, FedRep, LGFedAvg
from pfl_lib.methods.lg_fedavg import representation
from tests.methods.conftest import TwoLayers, normed

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_lg_fedavg_two_rounds_by_hand(pencil, play, exactly):
    """Steps theta <- (theta + point) / 2, sizes 2 and 1; "lower" stays, "upper" is averaged.

    Round 1: y_0: (0,0) -> (2,0) -> (1,2);  y_1: (4,-2);  upper (2*2 - 2)/3 = 2/3.
    Round 2: y_0: (1,2/3) -> (5/2,1/3) -> (5/4,13/6);  y_1: (4,2/3) -> (6,-5/3);
      upper (13/3 - 5/3)/3 = 8/9.  Half of the parameters is sent.
    """
    fed = pencil(POINTS, alice=None, model=TwoLayers)
    (first, log), (second, _) = play(LGFedAvg(), fed)
    exactly(first["theta"], [[1, 2 / 3], [4, 2 / 3]])
    exactly(second["theta"], [[5 / 4, 8 / 9], [6, 8 / 9]])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 1


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
    for name in lower + upper:
        layer = fed.layout.layer(name)
        one, other = state["theta"][:, layer.start : layer.stop]
        assert torch.equal(one, other) == (name in upper)


def test_the_representation_without_convolutions_and_without_layers_behind_them(small):
    """All but the last layer; all of them."""
    assert representation(small().layout) == ["0"]
    assert representation(small(model=normed, batch_size=3).layout) == ["0", "1"]

    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 26))
    normed_last = nn.Sequential(*network, nn.BatchNorm2d(3))
    assert representation(Layout.of(network)) == ["0", "1", "2"]
    assert representation(Layout.of(normed_last)) == ["0", "1", "2", "3"]
    weighed = nn.Sequential(weight_norm(nn.Conv2d(1, 4, 3)), nn.Flatten(), nn.Linear(4, 2))
    assert representation(Layout.of(weighed)) == ["0"]


def test_fedrep_two_rounds_by_hand(pencil, play, exactly):
    """Steps theta <- (theta + point) / 2; "upper" is the head.  Two local epochs: one moves the
    head alone, one the body alone.  Sizes 2 and 1.

    Round 1: head of 0: 0 -> 0 -> 2, body 0 -> 2 -> 1;  of 1: head -2, body 4.
      body (2*1 + 4)/3 = 2.
    Round 2: head of 0: 2 -> 1 -> 5/2, body 2 -> 3 -> 3/2;  of 1: head -3, body 5.
      body (3 + 5)/3 = 8/3.
    """
    fed = pencil(POINTS, alice=None, model=TwoLayers, local_epochs=2)
    (first, log), (second, _) = play(FedRep(), fed)
    exactly(first["theta"], [[2, 2], [2, -2]])
    exactly(second["theta"], [[8 / 3, 5 / 2], [8 / 3, -3]])
    assert log["models_up"] == log["models_down"] == 1


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


@pytest.mark.parametrize(
    "norm", [lambda: nn.LayerNorm(5), lambda: nn.GroupNorm(1, 5), lambda: nn.BatchNorm1d(5)]
)
def test_norms_are_found_by_their_type(small, play, norm):
    """The trap: norms found by the name "bn" alone."""
    model = lambda: nn.Sequential(nn.Linear(4, 5), norm(), nn.Tanh(), nn.Linear(5, 3))  # noqa: E731
    fed = small(alice=None, batch_size=3, model=model)
    state, log = play(FedBN(), fed)[-1]
    of = {layer.name: torch.arange(layer.start, layer.stop) for layer in fed.layout.layers}
    kept, shared = of["1"], torch.cat([of["0"], of["3"]])
    assert len(state["theta"][:, kept].unique(dim=0)) == 4
    assert len(state["theta"][:, shared].unique(dim=0)) == 1
    assert log["models_up"] == pytest.approx(4 * (1 - 10 / fed.layout.P))
