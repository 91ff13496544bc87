"""The pictures of Weight Erosion's pages, each with an alt text made from what is drawn; see
`pfl_lib.display.figures`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.theme import ON_LINES, blank, look, theme
from pfl_lib.results.summary import status

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result

NAMES = {
    "Local": "Local",
    "WE": "Weight Erosion",
    "FedAvg": "FedAvg",
    "Global (code)": "Global (authors' code)",
}
AGENT_COLOURS = ("#cc78bc", "#56b4e9", "#ca9161", "#000000")  # none of them a scheme's
BASELINE = "#d62728"
FIRST_OUTPUT, SECOND_OUTPUT = "#1a1a1a", "#9a9a9a"


def accuracies_and_weights(
    results: Mapping[int, Mapping[str, "Result"]],
    prevalence: Mapping[int, float] | None,
    measure: str = "batch_accuracy",
    title: str = "",
    authors: Mapping[int, np.ndarray] | None = None,
) -> tuple["Figure", str]:
    """Figure 1, one of its two rows: for each user every scheme's accuracy (full) and Weight
    Erosion's weights (dotted) by round.

    Two pictures in a row, where the paper has four, so that they can be read at half a page's
    width.

    `results`: user -> scheme -> result, with round 0.  `measure` is the column of accuracies.
    `prevalence`: the share of class 1 among a user's test examples; it and its complement are what
    always saying 1 or 0 would reach (dashed).  None draws no such lines.  `authors`: user -> the
    weights [rounds, 4] that the authors' program printed, drawn as points.  The lines of a run that
    diverged stop there, and its picture says so.
    """
    with theme():
        figure, panels = _in_pairs(len(results), 2.5, 1.6)
        for axes, (user, of_user) in zip(panels, results.items(), strict=True):
            _draw_user(axes, user, of_user, prevalence, measure)
            if authors and user in authors:
                _draw_authors(axes, user, authors[user])
        for axes in panels[::2]:
            axes.set_ylabel("accuracy, weight")
        handles = {
            line.get_label(): line
            for axes in panels
            for line in axes.get_lines()
            if line.get_label()[0] != "_"
        }
        agents = {name: line for name, line in handles.items() if name.startswith("agent")}
        others = {name: line for name, line in handles.items() if name not in agents}
        figure.legend(
            others.values(),
            others,
            loc="outside upper center",
            ncols=3,
            frameon=False,
            title=title or None,
        )
        below = {
            "loc": "outside lower center",
            "title": "weights, dotted",
            "ncols": max(1, len(agents)),
        }
        figure.legend(agents.values(), agents, frameon=False, **below)
    about = _about_users(results, measure, title)
    if authors and (drawn := authors.keys() & results.keys()):
        about += f" Points: the weights that the authors' program printed, for {len(drawn)} users."
    return figure, about


def parameters(
    results: Mapping[str, "Result"], inputs: Sequence[str], title: str = ""
) -> tuple["Figure", str]:
    """Figure 2, one of its two rows: each scheme's weights of both outputs for the bias and every
    input, as bars.

    `results`: scheme -> result (2 outputs).  Bars of the first output (class 0) are black, of the
    second grey; the shorter one lies in front.  The axis reaches as far as the largest weight; the
    paper's ends at 1.  Where a result has no parameters to show there is a word in place of bars.
    """
    tables = {
        scheme: learned(result, inputs)
        for scheme, result in results.items()
        if not no_parameters(result)
    }
    missing = {scheme: why for scheme, result in results.items() if (why := no_parameters(result))}
    reach = max((table.abs().to_numpy().max() for table in tables.values()), default=1) * 1.04
    with theme():
        figure, panels = _in_pairs(len(results), 0.55 + 0.26 * (len(inputs) + 1), 0.8)
        bars = []
        for axes, scheme in zip(panels, results, strict=True):
            if scheme in tables:
                bars = _draw_bars(axes, tables[scheme])
            else:
                axes.text(0.5, 0.5, missing[scheme], transform=axes.transAxes, ha="center")
                axes.grid(False)
            axes.set(title=NAMES[scheme], xlim=(-reach, reach), ylim=(len(inputs) + 0.5, -0.5))
        panels[0].set_yticks(range(len(inputs) + 1), _rows(inputs))
        figure.suptitle(title or None, fontsize=11)
        words = [f"output for class {k}" for k in (0, 1)]
        if bars:
            figure.legend(bars, words, loc="outside lower center", ncols=2, frameon=False)
    return figure, _about_parameters(tables, missing, title)


def no_parameters(result: "Result") -> str:
    """Why a result has no final parameters to show: it diverged, or was published without its
    model; empty if it has them.
    """
    if result.diverged is not None:
        return status(result)
    return "" if result.model else "published without its model"


def _rows(inputs: Sequence[str]) -> list[str]:
    return ["Bias term", *inputs]


def learned(result: "Result", inputs: Sequence[str]) -> pd.DataFrame:
    """The final model's parameters: a row for the bias and for each input, a column for each
    output, as in Figure 2.
    """
    weight, bias = (
        result.model[f"linear.{part}"][0].numpy().astype(float) for part in ("weight", "bias")
    )
    return pd.DataFrame(
        np.vstack([bias, weight.T]), index=_rows(inputs), columns=["class 0", "class 1"]
    )


def penalties(table: pd.DataFrame, title: str = "") -> tuple["Figure", str]:
    """What p_d and p_s do: for each user two grids, the accuracy in the end and the mean weight of
    the others over all rounds.

    `table`: columns user, p_d, p_s, accuracy (percent), others (their mean weight, 0 to 1) and
    status; where that is not "ran" it stands in place of the number.
    """
    users = list(dict.fromkeys(table["user"]))
    with theme():
        figure, panels = blank(0.6 + 2.7 * len(users), rows=len(users), columns=2)
        panels = np.reshape(panels, (len(users), 2))
        for row, user in zip(panels, users, strict=True):
            of_user = table[table["user"] == user]
            _heat(row[0], of_user, "accuracy", ".1f", "Blues", f"user {user}: accuracy (%)")
            _heat(row[1], of_user, "others", ".2f", "Greens", f"user {user}: weight of the others")
        figure.suptitle(title or None, fontsize=11)
    words = []
    for user in users:
        of_user = table[table["user"] == user]
        ran = of_user[of_user["status"] == "ran"].sort_values("accuracy")
        if len(ran):
            low, high = ran.iloc[0], ran.iloc[-1]
            words.append(
                f"User {user}: from {low.accuracy:.1f} percent (p_d {low.p_d:g}, p_s {low.p_s:g})"
                f" to {high.accuracy:.1f} (p_d {high.p_d:g}, p_s {high.p_s:g}); the others weigh"
                f" {ran.others.max():.2f} at most and {ran.others.min():.2f} at least."
            )
        for word, rest in of_user[of_user["status"] != "ran"].groupby("status"):
            places = "; ".join(
                f"p_d {p_d:g}, p_s {p_s:g}"
                for p_d, p_s in zip(rest["p_d"], rest["p_s"], strict=True)
            )
            words.append(f"User {user}, {places}: {word}.")
    head = (
        "Heat maps over the penalties p_d and p_s of accuracy after the last round and mean weight"
        " of the other agents."
    )
    return figure, " ".join([head, *words])


def distances(path: pd.DataFrame, title: str = "") -> tuple["Figure", str]:
    """Appendix A as one line for each agent: relative distance to the user's gradient while the
    user's loss is being minimised.

    `path`: index step (from 1), a column for each agent; both axes are logarithmic.
    """
    with theme():
        figure, axes = blank(3.8)
        for agent, (name, curve) in enumerate(path.items()):
            axes.plot(
                path.index,
                curve,
                color=AGENT_COLOURS[(agent + 1) % 4],
                linestyle=("-", "--", "-.")[agent % 3],
                label=name,
            )
        axes.axhline(1, color="#888888", linewidth=1)
        axes.set(
            xscale="log", yscale="log", xlabel="gradient steps on the user's own loss", title=title
        )
        axes.set_ylabel("relative distance")
        axes.legend(loc="upper left")
    first, last = path.iloc[0], path.iloc[-1]
    words = "; ".join(f"{name} from {first[name]:.2f} to {last[name]:,.0f}" for name in path)
    alt = (
        "Line plot on logarithmic axes: relative distance of the agents' gradients to the user's,"
        f" over {path.index[-1]:,} steps: {words}."
    )
    return figure, alt


def _in_pairs(pictures: int, height: float, rest: float):
    """A figure with two pictures in a row, `height` inches each and with the same y axis, and
    `rest` for title and legends.
    """
    rows = (pictures + 1) // 2
    figure, panels = blank(rows * height + rest, rows=rows, columns=2, same_y=True)
    panels = list(np.ravel(panels))
    for axes in panels[pictures:]:
        axes.set_axis_off()
    return figure, panels[:pictures]


def _draw_user(
    axes: "Axes", user: int, of_user: Mapping[str, "Result"], prevalence, measure: str
) -> None:
    if prevalence is not None:
        for place, height in enumerate((prevalence[user], 1 - prevalence[user])):
            label = "always 0, always 1" if not place else "_"
            axes.axhline(height, color=BASELINE, linestyle="--", linewidth=1.5, label=label)
    rounds = 1
    for place, (scheme, result) in enumerate(of_user.items()):
        if result.diverged is not None:
            # One line below the other, from the middle down, where accuracies seldom are.
            below = {"transform": axes.transAxes, "ha": "center", "fontsize": 9, "zorder": 5}
            axes.text(0.5, 0.5 - 0.1 * place, f"{scheme} {status(result)}", bbox=ON_LINES, **below)
            if result.metrics.empty:
                continue
        curve = result.metrics.set_index("round")[measure]
        rounds = max(rounds, int(curve.index.max()))
        drawn = look(scheme, of_user) | {"linestyle": "-", "linewidth": 1.6, "markersize": 4.5}
        axes.plot(curve.index, curve, label=NAMES[scheme], markevery=(place, 4), zorder=3, **drawn)
        if scheme == "WE" and result.weights is not None:
            weights = np.vstack([np.ones(result.weights.shape[1]), result.weights])
            for agent, of_agent in enumerate(weights.T):
                colour = AGENT_COLOURS[agent % len(AGENT_COLOURS)]
                axes.plot(
                    of_agent, color=colour, linestyle=":", linewidth=2.2, label=f"agent {agent}"
                )
    axes.set(
        title=f"user: agent {user}", xlabel="round", xlim=(-0.5, rounds + 0.5), ylim=(-0.02, 1.02)
    )
    axes.set_yticks(np.linspace(0, 1, 6))


def _draw_authors(axes: "Axes", user: int, weights: np.ndarray) -> None:
    """Points in the agents' colours, every second round: the authors' own weights."""
    rounds = np.arange(1, len(weights) + 1)[::2]
    label = "agents, authors' program"
    for agent, of_agent in enumerate(weights.T):
        if agent != user:
            shown = {
                "marker": "o",
                "markersize": 4,
                "linestyle": "none",
                "markerfacecolor": "white",
            }
            colour = AGENT_COLOURS[agent % len(AGENT_COLOURS)]
            axes.plot(rounds, of_agent[::2], color=colour, label=label, zorder=4, **shown)
            label = "_"


def _draw_bars(axes: "Axes", table: pd.DataFrame) -> list:
    """Draw both outputs' parameters and return their bars."""
    places = np.arange(len(table))
    values = table.to_numpy()
    drawn = []
    for output, colour in enumerate((FIRST_OUTPUT, SECOND_OUTPUT)):
        same_side = np.sign(values[:, 0]) == np.sign(values[:, 1])
        in_front = same_side & (np.abs(values[:, output]) < np.abs(values[:, 1 - output]))
        bars = axes.barh(places, values[:, output], height=0.74, color=colour, linewidth=0)
        for bar, front in zip(bars, in_front, strict=True):
            bar.set_zorder(3 if front else 2)
        drawn.append(bars)
    axes.axvline(0, color="black", linewidth=1.5, zorder=4)
    axes.grid(False, axis="y")
    return drawn


def _heat(
    axes: "Axes", table: pd.DataFrame, value: str, fmt: str, colours: str, title: str
) -> None:
    import seaborn

    grid = table.pivot(index="p_d", columns="p_s", values=value)
    # At least 6 points (or the whole of a weight) from white to full colour: a passenger more or
    # less is no picture.
    least = 6.0 if value == "accuracy" else 1.0
    low, high = np.nan_to_num([grid.min().min(), grid.max().max()])
    middle, half = (high + low) / 2, max(high - low, least) / 2
    axes.grid(False)
    seaborn.heatmap(
        grid,
        ax=axes,
        annot=True,
        fmt=fmt,
        annot_kws={"fontsize": 10},
        cmap=colours,
        vmin=middle - half,
        vmax=middle + half,
        cbar=False,
        linewidths=0.5,
    )
    words = table.pivot(index="p_d", columns="p_s", values="status")
    for row, column in zip(*np.nonzero((words != "ran").to_numpy()), strict=True):
        word = words.iloc[row, column].replace(" at ", "\n")
        axes.text(column + 0.5, row + 0.5, word, ha="center", va="center", fontsize=9)
    axes.set(title=title, xlabel="size penalty p_s", ylabel="distance penalty p_d")
    axes.set_xticklabels([f"{p_s:g}" for p_s in grid.columns])
    axes.set_yticklabels([f"{p_d:g}" for p_d in grid.index], rotation=0)


def _in_the_end(result, measure: str) -> str:
    return (
        status(result) if result.diverged is not None else f"{result.metrics[measure].iloc[-1]:.3f}"
    )


def _about_users(results, measure: str, title: str) -> str:
    words = []
    for user, of_user in results.items():
        ends = ", ".join(
            f"{NAMES[scheme]} {_in_the_end(result, measure)}" for scheme, result in of_user.items()
        )
        gone = ""
        if "WE" in of_user and of_user["WE"].diverged is None:
            last = of_user["WE"].weights[-1]
            zero = [str(agent) for agent, weight in enumerate(last) if weight == 0]
            gone = f", the weight of agents {', '.join(zero)} is 0" if zero else ", no weight is 0"
        words.append(f"User {user}: in the end {ends}{gone}.")
    kind = (
        "as the mean over test batches"
        if measure == "batch_accuracy"
        else "as the share of test examples"
    )
    head = (
        f"{len(results)} line plots{', ' + title if title else ''}: accuracy ({kind}) and weights"
        " by round."
    )
    return " ".join([head, *words])


def _about_parameters(
    tables: Mapping[str, pd.DataFrame], missing: Mapping[str, str], title: str
) -> str:
    words = [f"{NAMES[scheme]}: {why}." for scheme, why in missing.items()]
    for scheme, table in tables.items():
        largest = table["class 1"].drop("Bias term").abs().nlargest(3).index
        listed = ", ".join(f"{name} {table.loc[name, 'class 1']:+.2f}" for name in largest).replace(
            "-", "−"
        )
        words.append(f"{NAMES[scheme]}: {listed}.")
    head = (
        f"Bar charts of the learned parameters{', ' + title if title else ''}; the three largest"
        " weights for class 1."
    )
    return " ".join([head, *words])
