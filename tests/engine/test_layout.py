"""Which columns are which layer."""

from itertools import chain

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from pfl_lib import Federation, Schedule, models
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.layout import Layer, Layout
from pfl_lib.models.cnn import LeNet5, PFedLACNN
from pfl_lib.models.dla import DLA
from tests.common import refused


class Odd(nn.Module):
    """A scalar parameter, a fixed float buffer and an integer one."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))
        self.norm = nn.BatchNorm1d(2)
        self.fc = nn.Linear(2, 1, bias=False)


def test_columns_follow_the_modules_order_statistics_apart_and_batch_counters_in_neither():
    layout = Layout.of(Odd())
    assert [(b.name, b.shape, b.start, b.stop) for b in layout.parameters] == [
        ("scale", (), 0, 1),
        ("norm.weight", (2,), 1, 3),
        ("norm.bias", (2,), 3, 5),
        ("fc.weight", (1, 2), 5, 7),
    ]
    statistics = [(b.name, b.start, b.stop) for b in layout.statistics]
    assert statistics == [("norm.running_mean", 0, 2), ("norm.running_var", 2, 4)]
    assert (layout.P, layout.S) == (7, 4)


def test_what_a_parametrization_holds_belongs_to_the_layer_whose_weight_it_computes():
    """The layer of one whole module, so that FedRep's head is no bias alone."""
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), weight_norm(nn.Linear(5, 3)))
    layers = [(one.name, one.start, one.stop) for one in Layout.of(net).layers]
    assert layers == [("0", 0, 25), ("2", 25, 46)]  # a bias, lengths and directions: 3 + 3 + 15
    flat = FlatModule(net, F.cross_entropy, torch.device("cpu"), torch.float32)
    assert [one.name for one in flat.in_forward_order(torch.zeros(2, 4)).layers] == ["0", "2"]
    one = Layout.of(spectral_norm(nn.Linear(4, 3))).layers
    assert one == (Layer("", 0, 15, 0, 7),)  # and its two vectors, 3 + 4
    attention = spectral_norm(nn.MultiheadAttention(4, 2), "in_proj_weight")
    apart = [(one.name, one.size) for one in Layout.of(attention).layers if one.size]
    assert apart == [("", 12), ("out_proj", 20), ("parametrizations.in_proj_weight", 48)]


def test_rows_of_a_module_and_back():
    module = Odd()
    layout = Layout.of(module)
    nn.utils.vector_to_parameters(torch.arange(7.0), module.parameters())
    rows = layout.rows(module)
    assert rows["theta"].tolist() == list(range(7)) and not rows["theta"].requires_grad
    assert rows["statistics"].tolist() == [0, 0, 1, 1]
    named = layout.named(**rows)
    state = {name: of for name, of in module.state_dict().items() if of.is_floating_point()}
    assert named.keys() == state.keys()
    assert all(torch.equal(named[name], state[name]) for name in state)
    rows["theta"].zero_()
    assert module.norm.weight[1].item() == 2, "rows are copies"


def test_named_values_of_a_matrix_are_views_into_it():
    layout = Layout.of(Odd())
    theta, statistics = torch.zeros(5, 7), torch.zeros(5, 4)
    named = layout.named(theta, statistics)
    assert named["scale"].shape == (5,) and named["fc.weight"].shape == (5, 1, 2)
    named["fc.weight"][3] = 1
    assert theta[3].tolist() == [0, 0, 0, 0, 0, 1, 1] and not theta[[0, 1, 2, 4]].any()


def federation(network: nn.Module, shape: tuple[int, ...]) -> Federation:
    random = torch.Generator().manual_seed(0)
    data = [(torch.randn(4, *shape, generator=random), torch.tensor([0, 1, 1, 0]))]
    return Federation.from_arrays(data, data, network, Schedule(1, batch_size=4), device="cpu")


def test_pfedlas_network_has_its_norms_among_its_layers_with_their_statistics():
    shape = (3, 16, 16)
    layers = federation(models.build("pfedla_cnn-norm", shape, 2), shape).layout.layers
    assert [layer.name for layer in layers] == "conv1 norm1 conv2 norm2 fc1 fc2 fc3".split()
    assert [layer.name for layer in layers if layer.norm] == ["norm1", "norm2"]
    # The running means and variances of 16 channels, then those of 32.
    bounds = [(layer.statistics_start, layer.statistics_stop) for layer in layers]
    assert [b for b in bounds if b[0] != b[1]] == [(0, 32), (32, 96)]
    assert [layer.size for layer in layers if layer.norm] == [32, 64]


def test_dlas_layers_come_in_the_order_of_calls():
    shape, calls = (3, 8, 8), []
    network = models.build("dla", shape, 2)
    layers = federation(network, shape).layout.layers
    for name, part in network.named_modules():
        if next(part.parameters(recurse=False), None) is not None:
            part.register_forward_hook(lambda *_, name=name: calls.append(name))
    network.eval()(torch.zeros(1, *shape))
    assert [layer.name for layer in layers] == calls and len(calls) == 87
    assert sum(layer.norm for layer in layers) == 43


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.fc = nn.Linear(2, 2)


class Turned(nn.Module):
    """Registered against its forward pass: a bare parameter, a head, an unused layer, a nested
    module with a bare parameter, and a BatchNorm without learnt scales.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2))
        self.head = nn.Linear(2, 2)
        self.unused = nn.Linear(1, 1)
        self.inner = Inner()
        self.norm = nn.BatchNorm1d(2, affine=False)

    def forward(self, x):
        weight = self.inner.fc.weight  # read, not called
        x = self.norm(F.linear(x, weight, self.inner.fc.bias)) * self.inner.scale
        return self.head(x) + self.shift


def test_layers_come_in_forward_order_where_they_are_registered_in_another():
    layout = Layout.of(Turned())
    registered = ["", "head", "unused", "inner", "inner.fc", "norm"]
    assert [layer.name for layer in layout.layers] == registered
    found = layout.in_order(["inner.fc", "norm", "inner", "head", "", "head"])
    names = [layer.name for layer in found.layers]
    assert names == ["unused", "inner.fc", "norm", "inner", "head", ""]
    assert found.parameters == layout.parameters and set(found.layers) == set(layout.layers)


def test_a_federation_finds_the_forward_order_of_a_network_that_it_was_given():
    class Used(Turned):
        def forward(self, x):
            return super().forward(x) + 0 * self.unused.weight.sum() + 0 * self.unused.bias

    names = [layer.name for layer in federation(Used(), (2,)).layout.layers]
    assert names == ["inner.fc", "norm", "inner", "head", "", "unused"]


def test_every_column_belongs_to_exactly_one_layer():
    with torch.device("meta"):  # shapes alone
        modules = (Odd(), Turned(), LeNet5(), PFedLACNN(norm=True), DLA())
    for layout in map(Layout.of, modules):
        of_each = [
            (range(of.start, of.stop), range(of.statistics_start, of.statistics_stop))
            for of in layout.layers
        ]
        parameters, statistics = ([*chain(*of)] for of in zip(*of_each, strict=True))
        assert parameters == [*range(layout.P)] and statistics == [*range(layout.S)]


def test_a_layer_is_found_by_its_name():
    """Turned: shift 0-1, head 2-7, unused 8-9, inner.scale 10-11, inner.fc 12-17."""
    layout = Layout.of(Turned())
    columns = {layer.name: (layer.start, layer.stop) for layer in layout.layers}
    assert columns["inner"] == (10, 12) and columns["inner.fc"] == (12, 18)
    assert layout.layer("norm") == Layer("norm", 18, 18, 0, 4, norm=True)
    refused("^layer 'fc4' is not one of conv1, conv2, fc1, fc2", Layout.of(LeNet5()).layer, "fc4")
