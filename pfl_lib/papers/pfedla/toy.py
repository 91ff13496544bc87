"""pFedLA's Figure 1, the toy behind the paper: averages by similarity, layer by layer against whole
models; its runs, numbers and picture.

The paper says "six clients", "a nine-class classification task" and no more of the setting.  Here
it is CIFAR10 without its last class, four of the nine classes a client, the network of the tables
without norms, and their schedule.  The paper's client 1 is client 0 here.
"""

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display.theme import blank, legend, theme
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, Local
from pfl_lib.methods.similarity import Similarity
from pfl_lib.papers.claims import is_above, two_standard_errors
from pfl_lib.papers.pfedla.costs import layers_of
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Find, Row, Table
from pfl_lib.partitions import Classes
from pfl_lib.results.summary import Ours, differences, gather

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result

CLIENT = 0
LAYER, MODEL = "layer-wise", "model-wise"
BARS = {LAYER: ("#de8f05", ""), MODEL: ("#000000", "//")}  # their lines' colours, and a hatch
ENTROPY = Similarity().entropy
ENTROPIES = (0.5, 0.9)
"""How equal weights are, as a share of the entropy of equal ones: the default of `Similarity`, and
two others, since the paper gives no temperature.
"""

SETTING = Setting(
    dataset="cifar10",
    partition=Classes(4, leave_out=(9,)),
    model="pfedla_cnn",
    schedule=Schedule(rounds=600, local_epochs=10, batch_size=32, lr=0.01),
    clients=6,
    alice=None,
    evaluate_every=25,
)
ROW = Row("CIFAR10", "six_clients_nine_classes", SETTING)
TABLE = Table(
    "pfedla",
    "fig1",
    (ROW,),
    (
        Column(LAYER, Similarity("layer")),
        Column(MODEL, Similarity("model")),
        Column("FedAvg", FedAvg()),
        Column("Local Training", Local()),
    ),
    protocol="last",
    over="clients",
)
OTHERS = replace(
    TABLE,
    name="fig1_entropies",
    columns=tuple(
        Column(f"{name}, {entropy:g}", Similarity(by, entropy))
        for entropy in ENTROPIES
        for name, by in ((LAYER, "layer"), (MODEL, "model"))
    ),
)


def _quick(setting: Setting) -> Setting:
    partition = replace(setting.partition, examples=80)
    setting = replace(setting, dataset="digits", partition=partition, evaluate_every=1)
    return setting.scheduled(rounds=3, local_epochs=2, lr=0.05, batch_size=16)


def _small(setting: Setting) -> Setting:
    return replace(setting.scheduled(rounds=30, local_epochs=5), evaluate_every=2)


FULL = Profile(
    name="paper",
    data="CIFAR10 without its last class, 600 images a client",
    seeds=(1, 2, 3),
    paper_seeds=1,
    settings=(SETTING,),
    differs="Data, network, schedule and measure of similarity are our choice: the paper says only"
    " six clients and nine classes.",
)
PROFILES = {
    "quick": replace(
        FULL,
        name="quick",
        data="scikit-learn's digits without the nines, enlarged to 28x28, 80 images a client",
        seeds=(1,),
        make=_quick,
    ),
    "small": replace(FULL, name="small", make=_small),
    "paper": FULL,
}


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """The figure's runs, every seed, and the first seed's at the other entropies."""
    return (*TABLE.runs(profile), *OTHERS.runs(profile.with_seeds(1)))


# --- numbers ---


def of_client(result: "Result", client: int = CLIENT) -> "Result":
    """The same result with one client's accuracy alone."""
    return replace(result, metrics=result.metrics[result.metrics["client"] == client])


def _gathered(table: Table, profile: Profile, find: Find) -> dict[str, dict[str, Ours]]:
    """Column to the accuracies of the last round, in percent: "client 0" and "all clients"."""
    found = {}
    for name, results in table.results(find, profile).items():
        pairs = [(result.config["seed"], result) for result in results]
        one = [(seed, of_client(result)) for seed, result in pairs]
        found[name] = {"client 0": gather(one, "last"), "all clients": gather(pairs, "last")}
    return found


def accuracies(profile: Profile, find: Find) -> pd.DataFrame:
    """Columns method, client 0 and all clients (accuracy after the last round in percent, the mean
    over seeds) and seeds; methods that did not run are left out.
    """
    rows = [
        {"method": name, **{who: of.mean for who, of in ours.items()}}
        | {"seeds": len(ours["all clients"].seeds)}
        for name, ours in _gathered(TABLE, profile, find).items()
    ]
    return profile.table(rows)


def leads(profile: Profile, find: Find) -> pd.DataFrame:
    """By how much layer-wise is above model-wise, in points: columns whose ("client 0", "all
    clients"), layer-wise and model-wise (mean accuracy over the seeds that both ran, percent), lead
    (the mean of the differences, seed by seed), plus or minus (two standard errors; NaN for one
    seed), seeds and above (True, False, or None where that is open).

    The paper prints no numbers here, so fewer than three seeds leave it open.  Empty where one of
    the two did not run.
    """
    ours = _gathered(TABLE, profile, find)
    rows = []
    for whose in ("client 0", "all clients") if {LAYER, MODEL} <= ours.keys() else ():
        pair = ours[LAYER][whose], ours[MODEL][whose]
        found = differences(*pair)
        if not found:
            continue
        both = set(pair[0].seeds) & set(pair[1].seeds)
        means = [
            statistics.fmean(v for seed, v in zip(of.seeds, of.values, strict=True) if seed in both)
            for of in pair
        ]
        rows.append(
            {
                "whose": whose,
                LAYER: means[0],
                MODEL: means[1],
                "lead": statistics.fmean(found),
                "plus or minus": two_standard_errors(found) if len(found) > 1 else float("nan"),
                "seeds": len(found),
                "above": is_above(*pair, printed=0.0),
            }
        )
    columns = ["whose", LAYER, MODEL, "lead", "plus or minus", "seeds", "above"]
    shown = pd.DataFrame(rows, columns=columns).astype({"above": object})
    shown.attrs["banner"] = profile.banner
    return shown


def by_entropy(profile: Profile, find: Find) -> pd.DataFrame:
    """The first seed at every entropy: columns entropy, layer-wise and model-wise (mean accuracy
    over all clients after the last round, percent; NaN where not run) and lead.
    """
    first = profile.with_seeds(1)
    ours = _gathered(OTHERS, first, find) | {
        f"{name}, {ENTROPY:g}": of for name, of in _gathered(TABLE, first, find).items()
    }
    rows = []
    for entropy in sorted((*ENTROPIES, ENTROPY)):
        line = {"entropy": entropy}
        for name in (LAYER, MODEL):
            of = ours.get(f"{name}, {entropy:g}")
            line[name] = of["all clients"].mean if of else float("nan")
        rows.append(line | {"lead": line[LAYER] - line[MODEL]})
    return profile.table(rows)


def own_weights(profile: Profile, find: Find) -> pd.DataFrame:
    """Client 0's weight on its own model in the last round, mean over seeds: columns layer,
    layer-wise and model-wise (the same in all layers); empty where nothing ran.
    """
    found = TABLE.only(columns=[LAYER, MODEL]).results(find, profile)
    columns = {}
    for name, results in found.items():
        last = [result.weights[-1] for result in results if result.weights is not None]
        if last:
            columns[name] = sum(weights[..., CLIENT, CLIENT] for weights in last) / len(last)
    if not columns:
        return profile.table([])
    return profile.table(pd.DataFrame({"layer": layers_of(SETTING.model), **columns}))


def layer_leads(table: pd.DataFrame) -> list[float]:
    """What should be above zero by the paper's text: the weights of fc1 and fc2 less the mean over
    layers, and that mean less the second convolution's; empty where nothing ran.
    """
    if LAYER not in table:
        return []
    own = table.set_index("layer")[LAYER]
    mean = own.mean()
    return [float(lead) for lead in (own["fc1"] - mean, own["fc2"] - mean, mean - own["conv2"])]


# --- the page's words and picture ---


def sentence(lead: pd.DataFrame, own: pd.DataFrame, quick: bool) -> str:
    """The page's answer.  `lead`, `own`: `leads` and `own_weights`."""
    if lead.empty:
        return "Not both of the two averages were run."
    words = []
    for line in lead.to_dict("records"):
        margin = f" ± {line['plus or minus']:.1f}" if line["seeds"] > 1 else ""
        words.append(
            f"{line['whose']}: {line[LAYER]:.1f} % beside {line[MODEL]:.1f} %,"
            f" {line['lead']:+.1f}{margin} points"
        )
    count = int(lead["seeds"].iloc[0])
    told = f"{count} seed{'s' * (count > 1)}"
    largest = own.set_index("layer")[LAYER]
    return (
        f"Layer-wise beside model-wise, accuracy after the last round ({told}): {'; '.join(words)}."
        f" Client 0 keeps most of {largest.idxmax()} ({largest.max():.2f}) and least of"
        f" {largest.idxmin()} ({largest.min():.2f})."
    ) + (" (Other data than the paper's: no verdict.)" if quick else f" {_verdict(lead)}")


def _verdict(lead: pd.DataFrame) -> str:
    words = {True: "above", False: "below", None: "not told apart from"}
    (one, every) = (words[above] for above in lead["above"])
    return f"So layer-wise is {one} model-wise for client 0, and {every} it on average."


def weights_figure(table: pd.DataFrame) -> tuple["Figure", str]:
    """Figure 1b: client 0's own weight by layer, two bars each.  `table`: `own_weights`."""
    names = [name for name in (LAYER, MODEL) if name in table]
    with theme():
        figure, axes = blank(3.4)
        for place, name in enumerate(names):
            at = [x + 0.38 * (place - (len(names) - 1) / 2) for x in range(len(table))]
            colour, hatch = BARS[name]
            axes.bar(
                at,
                table[name],
                width=0.36,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                label=name,
            )
        axes.set(ylabel="weight on its own model", ylim=(0, 1), xticks=range(len(table)))
        axes.set_xticklabels(table["layer"])
        axes.grid(False, axis="x")
        legend(figure, axes)
    told = "; ".join(
        f"{name}: "
        + ", ".join(f"{line['layer']} {line[name]:.2f}" for line in table.to_dict("records"))
        for name in names
    )
    return figure, f"Bar chart of client 0's weight on its own model by layer. {told}."
