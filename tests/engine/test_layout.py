"""Which columns are which layer."""

import torch
from torch import nn

from pfl_lib.engine.layout import Layout
from pfl_lib.models.cnn import LeNet5


class Odd(nn.Module):
    """A scalar parameter, a fixed float buffer and an integer one."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))
        self.norm = nn.BatchNorm1d(2)
        self.fc = nn.Linear(2, 1, bias=False)


def test_lenet5_has_61706_columns_and_no_statistics():
    layout = Layout.of(LeNet5())
    assert (layout.P, layout.S) == (61706, 0)
    assert [block.name for block in layout.parameters][:3] == [
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
    ]


def test_columns_follow_each_other_in_the_modules_order():
    layout = Layout.of(Odd())
    assert [(b.name, b.shape, b.start, b.stop) for b in layout.parameters] == [
        ("scale", (), 0, 1),
        ("norm.weight", (2,), 1, 3),
        ("norm.bias", (2,), 3, 5),
        ("fc.weight", (1, 2), 5, 7),
    ]


def test_running_statistics_are_apart_from_parameters_and_batch_counters_are_in_neither():
    layout = Layout.of(Odd())
    assert [(b.name, b.start, b.stop) for b in layout.statistics] == [
        ("norm.running_mean", 0, 2),
        ("norm.running_var", 2, 4),
    ]
    assert (layout.P, layout.S) == (7, 4)


def test_rows_of_a_module_and_back():
    module = Odd()
    layout = Layout.of(module)
    nn.utils.vector_to_parameters(torch.arange(7.0), module.parameters())
    rows = layout.rows(module)
    assert rows["theta"].tolist() == list(range(7)) and not rows["theta"].requires_grad
    assert rows["statistics"].tolist() == [0, 0, 1, 1]
    named = layout.named(**rows)
    state = {
        name: value for name, value in module.state_dict().items() if value.is_floating_point()
    }
    assert named.keys() == state.keys()
    assert all(torch.equal(named[name], state[name]) for name in state)


def test_rows_are_copies_of_the_module():
    module = Odd()
    rows = Layout.of(module).rows(module)
    rows["theta"].zero_()
    assert module.scale.item() == 3


def test_named_values_of_a_matrix_are_views_into_it():
    layout = Layout.of(Odd())
    theta, statistics = torch.zeros(5, 7), torch.zeros(5, 4)
    named = layout.named(theta, statistics)
    assert named["scale"].shape == (5,) and named["fc.weight"].shape == (5, 1, 2)
    named["fc.weight"][3] = 1
    assert theta[3].tolist() == [0, 0, 0, 0, 0, 1, 1] and not theta[[0, 1, 2, 4]].any()
