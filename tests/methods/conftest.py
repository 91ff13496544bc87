"""What the methods' tests share: a model that a pencil can train, and a network."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from pfl_lib import Federation, Schedule


class Quadratic(nn.Module):
    """Two parameters theta; its cross-entropy for label 0 is 1 + |theta - x|^2 / 2, so the gradient
    is theta - x, averaged over a batch.

    With logits (0, z) the cross-entropy of label 0 is log(1 + exp(z)); z = log(exp(q) - 1) makes
    that q.
    """

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return logits(self.theta, x)


def logits(theta: Tensor, x: Tensor) -> Tensor:
    """Logits [b, 2] whose cross-entropy for label 0 is 1 + |theta - x|^2 / 2."""
    q = 1 + (theta - x).square().sum(-1) / 2
    z = q + torch.log(-torch.expm1(-q))  # log(exp(q) - 1) without overflow
    return torch.stack([torch.zeros_like(z), z], -1)


class Coordinate(nn.Module):
    """One number, a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))


class TwoLayers(nn.Module):
    """As Quadratic, with a layer for each coordinate: "lower" and "upper"."""

    def __init__(self) -> None:
        super().__init__()
        self.lower, self.upper = Coordinate(), Coordinate()

    def forward(self, x: Tensor) -> Tensor:
        return logits(torch.cat([self.lower.value, self.upper.value]), x)


@pytest.fixture
def pencil() -> Callable[..., Federation]:
    """Make a federation whose clients hold points of the plane and whose every step is one point's:
    theta <- (theta + point) / 2.

    Learning rate 1/2, batches of one in the given order, theta from (0, 0), float64.  A client
    tests on its first point; `validation` holds each client's validation points.
    `model=TwoLayers` makes each coordinate a layer of its own, "lower" and "upper".
    """

    def make(
        points: Sequence[Sequence[tuple[float, float]]],
        rounds: int = 2,
        alice: int | None = 0,
        validation: Sequence[Sequence[tuple[float, float]]] = (),
        model: Callable[[], nn.Module] = Quadratic,
        **schedule,
    ):
        data, held = (
            [(torch.tensor(own, dtype=torch.float64), torch.zeros(len(own))) for own in of]
            for of in (points, validation)
        )
        settings = {"order": "fixed", "batch_size": 1, "lr": 0.5, **schedule}
        tests, own = [(x[:1], y[:1]) for x, y in data], {"validation": held, "alice": alice}
        own |= {"device": "cpu", "dtype": torch.float64}
        return Federation.from_arrays(data, tests, model(), Schedule(rounds, **settings), **own)

    return make


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


@pytest.fixture
def small() -> Callable[..., Federation]:
    """Make a federation of a small network: clients of 5, 9, 3, ... random examples, three labels,
    several batches with a short last one, and four validation examples each.

    `repeat` gives every client the same examples; `order` is the clients' order in a permuted
    federation; `shuffled=False` takes the examples in their given order.
    """

    def make(
        clients: int = 4,
        rounds: int = 4,
        alice: int | None = 0,
        repeat: bool = False,
        order: Sequence[int] | None = None,
        shuffled: bool = True,
        dtype: torch.dtype = torch.float64,
        model: Callable[[], nn.Module] = network,
        **schedule,
    ) -> Federation:
        random = torch.Generator().manual_seed(0)
        data = []
        for size in (5, 9, 3, 8, 4, 6)[:clients]:
            x = torch.randn(size, 4, generator=random, dtype=torch.float64)
            x = x + torch.randn(4, generator=random)
            data.append((x, torch.randint(3, (size,), generator=random)))
        held = [
            (torch.randn(4, 4, generator=random, dtype=torch.float64), torch.arange(4) % 3)
            for _ in range(clients)
        ]
        data, held = (
            [of[0]] * clients if repeat else [of[i] for i in order or range(clients)]
            for of in (data, held)
        )
        settings = {"batch_size": 2, "lr": 0.3, "order": "shuffled" if shuffled else "fixed"}
        settings |= schedule
        own = {"validation": held, "alice": alice, "device": "cpu", "dtype": dtype}
        return Federation.from_arrays(data, data, model, Schedule(rounds, **settings), **own)

    return make


def same(one: dict, other: dict) -> bool:
    """Whether two states are equal; nan marks clients that Weight Erosion has not met yet."""
    return one.keys() == other.keys() and all(
        torch.equal(one[n].nan_to_num(-1), other[n].nan_to_num(-1)) for n in one
    )


@pytest.fixture
def play() -> Callable[..., list[tuple[dict, dict]]]:
    """All rounds, or `rounds`, by a method, from its start or `state`: [(state, log), ...]."""

    def run(
        method, fed: Federation, rounds: int | None = None, state: dict | None = None
    ) -> list[tuple[dict, dict]]:
        state, played = state or method.start(fed), []
        for r in range(1, (rounds or fed.schedule.rounds) + 1):
            state, log = method.round(fed, state, r)
            played.append((state, log))
        return played

    return run


@pytest.fixture
def exactly() -> Callable[[Tensor, object], None]:
    """Assert that a tensor equals numbers worked out by hand, to the precision of float64."""

    def check(found: Tensor, by_hand: object) -> None:
        expected = torch.tensor(by_hand, dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)

    return check


@pytest.fixture
def alices_model() -> Callable[..., dict[str, Tensor]]:
    """The model served to a client (Alice, by default): {"theta": [P], "statistics": [S]}."""

    def of(method, fed: Federation, state: dict, client: int | None = None) -> dict[str, Tensor]:
        served = method.served(fed, state)
        client = fed.alice if client is None else client
        return {name: row[client] if row.dim() == 2 else row for name, row in served.items()}

    return of
