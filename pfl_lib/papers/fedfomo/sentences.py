"""The sentence that answers each of FedFomo's pages, made from its numbers: none is typed in."""

from collections.abc import Mapping

import pandas as pd

from pfl_lib.papers.claims import QUICK
from pfl_lib.papers.fedfomo import OURS

NOTHING = "None of the runs behind this page is stored."
NO_VERDICT = " (Other data than the paper's: no verdict.)"


def recovered(by_setting: Mapping[str, pd.DataFrame], quick: bool) -> str:
    """How many clients that share their group favour it, whether their affinity for it rises above
    its start, in how many settings P gives the groups exactly, and whether it did better before.
    `by_setting`: `numbers.recoveries`.
    """
    if not by_setting:
        return NOTHING
    last = pd.DataFrame([by_round.iloc[-1] for by_round in by_setting.values()])
    favoured, of = last["clients"].sum(), last["of"].sum()
    sunk = int((last["within"] < 0).sum())
    before = [by_round["Rand index"].max() for by_round in by_setting.values()]
    better = int((last["Rand index"] < before).sum())
    return (
        f"After the last round {favoured:.0f} of {of:.0f} clients in {len(last)} settings have a"
        " higher mean affinity for the clients of their own latent group than for the others."
        f" Clustering the affinities gives the groups exactly in {(last['Rand index'] == 1).sum()}"
        f" of the {len(last)}: the adjusted Rand index is {last['Rand index'].min():.2f} to"
        f" {last['Rand index'].max():.2f} (1: the groups, about 0: chance), and was higher in an"
        f" earlier round in {better}. In {sunk} of the {len(last)} the mean affinity within groups"
        " ends below 0, where it started." + (NO_VERDICT if quick else "")
    )


def _th(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")


def held_out(shares: pd.DataFrame, halves: pd.DataFrame, quick: bool) -> str:
    """Which share for validation ends highest and which lowest, and how shares under one half stand
    against those above.  `shares`: `claims.validation_shares`; `halves`: `claims.halves`.
    """
    known = shares.set_index("share")["final"].dropna()
    if known.empty:
        return NOTHING
    told = ", ".join(f"in {row.higher} {row.measured}" for row in halves.itertuples())
    return (
        f"Accuracy after the last round is highest, {known.max():.1f} %, with a share of"
        f" {known.idxmax():g} held out, and lowest, {known.min():.1f} %, with {known.idxmin():g}."
        f" Of {halves['pairs'].iloc[0]} pairs of a share under one half and one above, the smaller"
        f" one is more than 0.4 points higher {told}." + (NO_VERDICT if quick else "")
    )


def ablations(final: pd.Series, quick: bool) -> str:
    """How accuracy goes with each of the settings that a figure varies.  `final`: accuracies
    (percent) by "ε = 0.3" and the like, in order.
    """
    known = final.dropna()
    if known.empty:
        return NOTHING
    told = []
    for what, of in known.groupby(known.index.str.partition(" = ").get_level_values(0), sort=False):
        values = ", ".join(name.partition(" = ")[2] for name in of.index)
        accuracies = ", ".join(f"{one:.1f}" for one in of)
        told.append(
            f"with {what} = {values} it is {accuracies} %"
            f" ({of.max() - of.min():.1f} points between the highest and the lowest)"
        )
    return f"Accuracy after the last round: {'; '.join(told)}." + (NO_VERDICT if quick else "")


def leading(pivot: pd.DataFrame, quick: bool) -> str:
    """On how many numbers of groups FedFomo is ahead of all other methods shown.  `pivot`: groups
    by method, percent.
    """
    known = pivot.dropna()
    if known.empty:
        return NOTHING
    others = known.drop(columns=OURS[0])
    ahead = int((known[OURS[0]] > others.max(axis=1)).sum())
    return (
        f"FedFomo (n=5) has the highest accuracy on {ahead} of {len(known)} numbers of latent"
        f" distributions; its lead over the best other method is between"
        f" {(known[OURS[0]] - others.max(axis=1)).min():+.1f} and"
        f" {(known[OURS[0]] - others.max(axis=1)).max():+.1f} points."
        + (NO_VERDICT if quick else "")
    ).replace("-", "−")


def listening(by_round: pd.DataFrame, quick: bool) -> str:
    """How much weight goes where in the first round and the last.  `by_round`:
    `numbers.listened_to`.
    """
    first, last = by_round.iloc[0], by_round.iloc[-1]
    told = [
        f"{whom} from {first[column]:.0f} to {last[column]:.0f} %"
        for whom, column in (
            ("the client's own model", "own model"),
            ("others of its latent group", "same group"),
            ("clients of other groups", "other groups"),
        )
    ]
    return (
        f"Between rounds {first['round']:.0f} and {last['round']:.0f} the weight goes:"
        f" {', '.join(told)}. In the last round {last['stopped']:.0f} % of the clients give no"
        " weight to any model and keep the one from before local training (*stopped*)."
        + (NO_VERDICT if quick else "")
    )


def answered(told: pd.DataFrame, column: str = "here") -> str:
    """How many sentences are answered how."""
    counts = told[column].str.partition(" (")[0].value_counts()
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"Of {len(told)} sentences, each on its data set: {listed}."


def beside_the_tables(leads: pd.DataFrame, groups: pd.DataFrame, half: str) -> str:
    """What the paper says beside its tables: `claims.leads`, `claims.upweighted` and
    `claims.under_half`; nothing for the quick profile, which answers nothing.
    """
    if half == QUICK:
        return ""
    told = []
    for frame, column, what in (
        (leads, "grows", "its lead grows with 100 clients on {} of {} data sets"),
        (groups, "upweighted", "every client favours its own latent group in {} of {} settings"),
    ):
        known = frame[~frame[column].str.startswith("not run")] if len(frame) else ()
        if len(known):
            words = known[column].str.partition(" (")[0].value_counts()
            told.append(what.format(words.get("yes", 0), len(known)))
            if "undecided" in words:
                told[-1] += f", undecided on {words['undecided']}"
    told.append(f"that a validation share under one half does better: {half}")
    text = "; ".join(told)
    return f" Beside these, {text}."
