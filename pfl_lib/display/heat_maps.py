"""Aggregation weights and other matrices of clients as heat maps."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm

from pfl_lib.display import theme
from pfl_lib.errors import BadInput
from pfl_lib.results.weights import shares

SHARES = (0.01, 0.1, 0.25, 0.5, 1)  # marked on the colour bar of weights
EACH = 12  # clients; of more only some have their name or number on an axis
LETTERS = 14  # of a name on an axis
NUMBERS: Mapping[int, str] = MappingProxyType({})  # clients without names
GREY = "#bbbbbb"  # behind a value that does not exist
HAIR = 1e-9  # of the largest value, or of 1 where that is less


def weights(
    axes: Axes,
    weights: np.ndarray,
    alice: int | None = None,
    rounds: Sequence[int] | None = None,
    names: Mapping[int, str] = NUMBERS,
) -> None:
    """Each client's share of the average by round, Alice in the centre (WAFFLE, Figure 3).

    `weights` [rounds, N], `rounds`: their numbers (default: 1, 2, 3, ...), `names`: clients' names
    by number.  White is a weight of exactly 0; colours follow the square root of the share: a tenth
    differs from a hundredth.  Where a weight is negative there are no shares: weights are drawn.
    """
    signed = bool((np.asarray(weights) < 0).any())
    share = np.asarray(weights, float) if signed else shares(weights)
    count, clients = share.shape
    first = 0 if alice is None else alice - clients // 2
    order = [(first + place) % clients for place in range(clients)]
    quantity = "weight" if signed else "share of the average"
    _heat_map(axes, share[:, order].T, limits_of(share) if signed else (0.0, 1.0), quantity)
    if not signed:
        axes.collections[0].colorbar.set_ticks(SHARES, labels=[f"{tick:g}" for tick in SHARES])
    shown = range(clients) if clients <= EACH else [0 if alice is None else clients // 2]
    called = [short(names, order[place], alice) for place in shown]
    axes.set_yticks([place + 0.5 for place in shown], called, rotation=0)
    every, numbers = max(1, -(-count // 10)), range(1, count + 1) if rounds is None else rounds
    axes.set_xticks(np.arange(0, count, every) + 0.5, numbers[::every], rotation=0)
    axes.set(xlabel="round", ylabel="client")


def short(names: Mapping[int, str], client: int, alice: int | None = None) -> str:
    """What a client is called where there is little room: its number where the beginning of its
    name is another's too.
    """
    if client == alice:
        return "Alice"
    name = str(names.get(client, client))
    if len(name) > LETTERS:
        begin = name[: LETTERS - 1]
        alike = sum(other.startswith(begin) for other in names.values()) > 1
        name = str(client) if alike else f"{begin}…"
    return theme.plain(name)


def matrix(
    axes: Axes,
    values: np.ndarray,
    groups: Sequence[object] | None = None,
    limits: tuple[float, float] | None = None,
    quantity: str = "",
    names: Mapping[int, str] = NUMBERS,
) -> None:
    """A matrix [N, N] of clients, such as weights (row i: client i's model) or cosines.

    `groups`: the group of each client; clients then stand by group, in the order in which groups
    first appear, with a line and a name for each.  `limits`: the values of the first and the last
    colour (default: from 0 to the largest, or to both sides of 0 alike).  `names`: clients' names
    by number, without groups.  White is 0, grey is not finite.
    Raises BadInput where the matrix is not square or groups do not fit it.
    """
    values = np.asarray(values, float)
    clients = len(values)
    if values.ndim != 2 or values.shape != (clients, clients):
        raise BadInput(f"a matrix of shape {values.shape}: give one of [N, N]")
    if groups is not None:
        groups = groups.tolist() if hasattr(groups, "tolist") else groups
        if len(groups) != clients or not all(isinstance(one, Hashable) for one in groups):
            told = "give the group of each client, a number or a text"
            raise BadInput(f"{len(groups)} groups for {clients} clients: {told}")
        order = _by_group(groups)
        values, groups = values[order][:, order], [groups[client] for client in order]
    _heat_map(axes, values, limits or limits_of(values), quantity)
    every = 1 if clients <= EACH else -(-clients // 8)
    ticks = np.arange(0, clients, every) + 0.5
    called = [short(names, client) for client in range(0, clients, every)]
    by = "" if groups is None else ", by group"
    if groups is not None:
        counts = Counter(groups)  # in the order in which they stand
        ends = np.cumsum([*counts.values()])
        ticks, called = ends - np.array([*counts.values()]) / 2, [str(name) for name in counts]
        axes.hlines(ends[:-1], 0, clients, color="#444444", linewidth=1)
        axes.vlines(ends[:-1], 0, clients, color="#444444", linewidth=1)
    axes.set_xticks(ticks, called, rotation=0 if max(map(len, called)) < 4 else 90)
    axes.set_yticks(ticks, called, rotation=0)
    axes.set(xlabel=f"from client{by}", ylabel=f"for client{by}", aspect="equal")


def turn(axes: Axes, values: np.ndarray, groups: Sequence[object] | None = None) -> None:
    """Give a drawn `matrix` other values, of the same groups and limits."""
    order = range(len(values)) if groups is None else _by_group(groups)
    axes.collections[0].set_array(np.ma.masked_invalid(values[order][:, order]))


def _by_group(groups: Sequence[object]) -> list[int]:
    names = list(dict.fromkeys(groups))
    return sorted(range(len(groups)), key=lambda client: names.index(groups[client]))


def limits_of(values: np.ndarray) -> tuple[float, float]:
    """From 0 to the largest (to 1 for a share); around 0 where some are negative."""
    finite = values[np.isfinite(values)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    if not len(finite):
        return 0.0, 1.0
    if low < 0:
        return -max(-low, high), max(-low, high)
    return 0.0, 1.0 if 0.5 < high <= 1 else float(high) or 1.0


def _heat_map(axes: Axes, values: np.ndarray, limits: tuple[float, float], quantity: str) -> None:
    low, high = limits
    palette = seaborn.color_palette("vlag" if low < 0 else "mako_r", as_cmap=True)
    axes.grid(False)
    seaborn.heatmap(
        np.ma.masked_invalid(values),
        ax=axes,
        cmap=palette.with_extremes(bad=GREY, under="white"),
        # A value of exactly 0 lies below the first colour.
        norm=Normalize(low, high) if low else PowerNorm(0.5, HAIR * min(high, 1), high),
        cbar_kws={"label": quantity if low or not quantity else f"{quantity} (white: 0)"},
        rasterized=True,
    )
