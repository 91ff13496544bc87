"""The sentences that answer most of WAFFLE's pages, made from their numbers: none is typed in."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from pfl_lib.display import tables
from pfl_lib.display.table_format import written
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import ALICE
from pfl_lib.papers.waffle import readings as of_equation
from pfl_lib.results.summary import HAIR


def listed(words: Iterable[str]) -> str:
    """ "A", "A and B", "A, B and C"; "none" of none."""
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def table_1(compared: pd.DataFrame, dataset: str = "MNIST") -> str:
    """How many of the values printed for a data set came out how; for the quick profile, which
    gives no verdicts, which methods are best where.  `compared`: `comparison.compare`.
    """
    here = compared[compared["dataset"] == dataset]
    ran = here[here["ours"].notna()]
    if ran.empty:
        return f"None of the {len(here)} values printed for {dataset} was run."
    if (here["profile"] == "quick").all():
        top = ran["ours"] >= ran.groupby("setting")["ours"].transform("max") - 1e-9
        best = ran[top].groupby("method", sort=False)["setting"].agg(listed)
        words = "; ".join(f"{method} on {where}" for method, where in best.items())
        return (
            f"Alice's best accuracy is {ran['ours'].min():.1f} to {ran['ours'].max():.1f} %. The"
            f" highest of six methods, level ones included: {words}. (Other data than the paper's:"
            " no verdict.)"
        )
    counts = here["verdict"].str.extract(r"^([^(:]+)")[0].str.strip().value_counts()
    fewer = int(here["verdict"].str.contains(r"\d+ of \d+ seeds\)").sum())
    rows = here.drop_duplicates("setting")
    known = here[here["setting"].isin(ran["setting"])]
    return (
        f"No method is above the better of WE and WAFFLE on {_lead(known, 'ours')} of the"
        f" {known['setting'].nunique()} distributions that were run, in the paper on"
        f" {_lead(known, 'paper')} of them.{_by_how_much(known)} The verdicts on the"
        f" {len(here)} values printed for {dataset}:"
        f" {listed(f'{count} {word}' for word, count in counts.items())}; of"
        f" {rows['clear pairs'].sum()} pairs of methods that the paper tells clearly apart"
        f" {rows['pairs in order'].sum()} stand in its order."
        + (f" {fewer} of the verdicts rest on fewer seeds than the paper's." if fewer else "")
    )


def _lead(rows: pd.DataFrame, column: str) -> int:
    """On how many distributions WE or WAFFLE has the highest value, level ones included."""
    top = rows[column] >= rows.groupby("setting")[column].transform("max") - 1e-9
    return rows.loc[top & rows["method"].isin(["WE", "WAFFLE"]), "setting"].nunique()


def _by_how_much(rows: pd.DataFrame) -> str:
    """How far the better of WE and WAFFLE lies above the best other method, by means over each
    one's own seeds; empty where a row has only one of the two sides.
    """
    leads = {}
    for distribution, of in rows.dropna(subset="ours").groupby("setting", sort=False):
        own = of["method"].isin(["WE", "WAFFLE"])
        if own.any() and not own.all():
            leads[distribution] = of.loc[own, "ours"].max() - of.loc[~own, "ours"].max()
    if not leads:
        return ""
    told = listed(f"{written(lead, sign=True)} ({where})" for where, lead in leads.items())
    clear = sum(lead > ACCURACY.floor for lead in leads.values())
    return (
        f" Its lead over the best other method is {told} points, more than"
        f" {ACCURACY.floor:g} on {clear} of {len(leads)}."
    )


def table_2(apart: float | None) -> str:
    """How far the recipe's shares are from the printed ones; `apart`: the largest difference."""
    if apart is None:
        return "Without the data at hand, only the paper's own table can be shown."
    return (
        "The recipe gives every client's shares of labels in distribution C as Table 2 prints them,"
        f" to within {100 * apart:.1f} points."
    )


def table_3(alone: pd.DataFrame) -> str:
    """When Alice is alone under both methods, and how often at the same time; `alone`:
    `claims.alone`.
    """
    ran = alone[alone["same time"].isin(["yes", "no"])]
    same = int((ran["same time"] == "yes").sum())
    words = [
        f"{row['distribution']}: {row['WE']} and {row['WAFFLE']}"
        for row in alone.to_dict("records")
    ]
    return (
        "Weight Erosion and WAFFLE leave Alice alone at about the same time on"
        f" {same} of {len(ran)} distributions (one seed; round by WE and by WAFFLE,"
        f" {'; '.join(words)})."
    )


def figure_3(weights: Mapping[str, np.ndarray]) -> str:
    """From which share to which Alice's goes, when she is alone, and to which other client she
    listens longest.  `weights`: method -> [rounds, N].
    """
    words, last = [], []
    for method, of_method in weights.items():
        share = tables.shares(of_method)[:, ALICE]
        alone = tables.alone_from(of_method, ALICE)
        end = f"all of it from round {alone}" if alone else f"{share[-1]:.0%} in round {len(share)}"
        words.append(f"under {method}, from {share[0]:.0%} in round 1 to {end}")
        heard = {client: np.flatnonzero(of) for client, of in enumerate(of_method.T)}
        until = {c: rounds[-1] + 1 for c, rounds in heard.items() if c != ALICE and len(rounds)}
        longest = [client for client in until if until[client] == max(until.values())]
        whom = listed(map(str, longest))
        last.append(f"client{'s' * (len(longest) > 1)} {whom} under {method}")
    if not words:
        return "No run is stored, so Alice's share of the average is not known."
    return (
        f"Alice's share of the average goes, {'; '.join(words)}. Of the others she listens longest"
        f" to {listed(last)}."
    )


def speed(rounds: pd.DataFrame) -> str:
    """In which round WAFFLE and WE reach the same accuracy, and whether WAFFLE is faster.

    `rounds`: `claims.speed`.
    """
    words = []
    for row in rounds.to_dict("records"):
        if np.isnan(row["target"]):
            words.append(f"on {row['distribution']} it is not known (a run is missing or diverged)")
        else:
            words.append(
                f"on {row['distribution']} WAFFLE reaches {row['target']:.1f} % in round"
                f" {row['WAFFLE']}, WE in round {row['WE']}"
            )
    # The quick profile's word is "no answer".
    answered = rounds[rounds["faster"].str.match("yes|no(?! answer)")]
    earlier = int(answered["faster"].str.startswith("yes").sum())
    if len(answered):
        clear = f" WAFFLE is clearly faster on {earlier} of {len(rounds)}."
    else:
        clear = ""
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}.{clear}"


def claims(answers: pd.DataFrame, behind: pd.DataFrame) -> str:
    """How many sentences about Table 1 hold, and of how many comparisons.

    `answers`: `claims.accuracy_claims`; `behind`: `claims.accuracy_comparisons`.
    """
    words = answers["here"].str.extract("^(yes|no|undecided|not run)(?: \\(|$)")[0].dropna()
    if words.empty:
        return f"The quick profile, on other data, answers none of {len(answers)} sentences."
    told = {  # of one sentence, of several
        "yes": ("holds", "hold"),
        "no": ("does not", "do not"),
        "undecided": ("stays open", "stay open"),
        "not run": ("was not run", "were not run"),
    }
    counts = words.value_counts().reindex(list(told)).dropna().astype(int)
    pairs = behind["holds"].value_counts()
    strict = behind.get("or level", "") == ""
    close = int((strict & (behind["paper"] <= ACCURACY.floor + HAIR)).sum())
    return (
        f"Of {len(answers)} sentences about Table 1,"
        f" {listed(f'{count} {told[word][count > 1]}' for word, count in counts.items())}; the"
        f" {len(behind)} comparisons behind them: {pairs.get('yes', 0)} yes,"
        f" {pairs.get('no', 0)} no, {pairs.get('undecided', 0)} open (too"
        f" close, too few seeds or not run). In {close} of them the paper's own difference is at"
        f" most {ACCURACY.floor:g} points: runs that gave just its values would not confirm it by"
        " this rule."
    )


def mostly_local(table: pd.DataFrame) -> str:
    """On how many distributions WAFFLE is mostly local when the paper says so; `table`:
    `claims.mostly_local`.
    """
    ran = table[table["seeds"] > 0]
    words = ran["answer"].str.extract("^(yes|no|undecided)(?: \\(|$)")[0]
    told = "; ".join(
        f"{row['distribution']} {row['half from']} and {row['four fifths from']} %"
        for row in ran.to_dict("records")
    )
    return (
        "Alice has half, and four fifths, of all weight from these shares of the rounds on:"
        f" {told or 'no run is stored'}. The paper says 70 to 90 %: by both readings and on every"
        f" seed that holds on {(words == 'yes').sum()} of {len(ran)} distributions, by no reading"
        f" and on no seed on {(words == 'no').sum()}."
    )


def on_the_way(rounds: pd.DataFrame, together: pd.DataFrame, local: pd.DataFrame) -> str:
    """Where WAFFLE is faster than Weight Erosion, both leave Alice alone at about the same time,
    and WAFFLE is mostly local when the paper says so: `claims.speed`, `claims.alone` and
    `claims.mostly_local`.
    """
    told = []
    for frame, column, what in (
        (rounds, "faster", "WAFFLE is clearly faster than WE (the paper: on B and C alone)"),
        (together, "same time", "both leave Alice alone at about the same time (one seed)"),
        (local, "answer", "WAFFLE is mostly local after 70 to 90 % of the rounds"),
    ):
        words = frame[column].str.extract("^(yes|no|undecided)(?: \\(|$)")[0].dropna()
        if len(words):
            where = {word: frame.loc[words.index[words == word], "distribution"] for word in words}
            left = f", undecided on {listed(where['undecided'])}" if "undecided" in where else ""
            told.append(f"{what} on {listed(where.get('yes', []))}{left}")
    return f"On the way there {'; '.join(told)}." if told else ""


def figure_8(curve: Mapping[int, float], slope: float) -> str:
    """Ω at the first, the middle and the last of some rounds; `curve`: round -> Ω."""
    words = [f"{degree:.2f} in round {r}" for r, degree in curve.items()]
    return f"With ΔΩ = {slope:g}, Ω is {listed(words)}."


def shift(spreads: pd.DataFrame, apart: pd.DataFrame, profile: Profile) -> str:
    """What the spread over seeds says about the paper's draw, from `shift.spreads`, and which
    option is nearer to the paper, from `shift.apart`.
    """
    own, shared, printed, less = [], [], [], 0
    for _, rows in spreads.groupby(["distribution", "method"], sort=False):
        known = rows.dropna(subset="std").set_index("labels")["std"]
        if "a draw a seed" in known and len(known) > 1:
            own.append(known.pop("a draw a seed"))
            shared += list(known)
            less += int((known < own[-1]).sum())
            printed.append(rows["paper std"].iloc[0])
    if own:
        words = (
            f"Best rounds vary over seeds by {_from_to(own)} points (one standard deviation) where"
            f" each seed draws its labels, by {_from_to(shared)} where seeds share a draw, which is"
            f" less in {less} of {len(shared)} cases; in the paper by {_from_to(printed)}."
        )
    else:
        words = "No two seeds that share a draw were run, so draws and seeds cannot be told apart."
    words += _by_option(apart, levels=profile.name == "paper")
    if profile.name == "quick":
        return f"{words} The quick profile, on other data, says nothing about the paper's seeds."
    return words


def _from_to(numbers: Iterable[float]) -> str:
    """ "0.8 to 7.3", or one number where there is no other."""
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(numbers), max(numbers)))
    return " to ".join(ends)


def _by_option(apart: pd.DataFrame, levels: bool) -> str:
    """How far option I moves each method, and, where levels can be compared, which is nearer."""
    words = ""
    for method, rows in apart.groupby("method", sort=False):
        told = []
        for row in rows.to_dict("records"):
            moved, seeds = written(row["moved"], sign=True, digits=1), row["seeds"]
            within = f" ± {row['plus or minus']:.1f}" if seeds > 1 else ""
            told.append(f"{moved}{within} ({row['distribution']}, {seeds} seed{'s' * (seeds > 1)})")
        words += f" Option I moves {method} by {listed(told)} points"
        if levels:
            nearer = int((rows["I"] < rows["II"]).sum())
            words += (
                f"; it is nearer to the paper on {nearer} of {len(rows)} distributions, on average"
                f" {rows['I'].mean():.1f} points away, option II {rows['II'].mean():.1f}"
            )
        words += "."
    return words + (" Plus or minus: two standard errors." if (apart["seeds"] > 1).any() else "")


def readings(read: pd.DataFrame, profile: Profile) -> str:
    """Which reading the paper's value on A* asks for, from `readings.accuracies`."""
    rows = read[(read["distribution"] == of_equation.DECIDED_ON[0]) & (read["status"] == "ran")]
    if len(rows) < len(of_equation.READINGS):
        return f"Both readings have to be run on {of_equation.DECIDED_ON[0]} to be told apart."
    words = "; ".join(
        f"*{row['reading']}* {row['best round']:.2f} in the best round, {row['last round']:.2f} in"
        " the last"
        for row in rows.to_dict("records")
    )
    head = f"On {of_equation.DECIDED_ON[0]} the paper prints {rows['paper'].iloc[0]:.2f}: {words}."
    if profile.name != "paper":
        return f"{head} Only the paper profile compares such numbers with the printed one."
    near = rows.loc[rows["apart"] <= rows["allowed"], "reading"].tolist()
    seeds = rows["seeds"].min()
    told = " and ".join(f"*{name}*" for name in near) or "neither"
    fewest = f"{seeds} seed" + ("s" if seeds > 1 else "")
    return f"{head} Near enough to count as reproduced, with {fewest}: {told}."
