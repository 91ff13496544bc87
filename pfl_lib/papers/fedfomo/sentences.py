"""The sentence that answers each of FedFomo's pages, made from its numbers: none is typed in."""

from collections.abc import Mapping

import pandas as pd

from pfl_lib.display.table_format import setting_words
from pfl_lib.papers.claims import QUICK
from pfl_lib.papers.fedfomo import OURS
from pfl_lib.results.summary import NOTHING as ABSENT

NOTHING = "None of the runs behind this page is stored."
NO_VERDICT = " (Other data than the paper's: no verdict.)"


def table(compared: pd.DataFrame) -> str:
    """How many printed values came out how; for the quick profile, where FedFomo stands.
    `compared`: `comparison.compare`.
    """
    ran = compared[compared["ours"].notna()]
    if ran.empty:
        return NOTHING
    stands = _stands(ran)
    if (compared["profile"] == "quick").all():
        return (
            f"On these data clients' mean accuracy is {ran['ours'].min():.1f} to"
            f" {ran['ours'].max():.1f} %, and {stands}.{NO_VERDICT}"
        )
    counts = compared["verdict"].str.extract(r"^([^(:]+)")[0].str.strip().value_counts()
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    rows = compared[compared["ranking"] != "not run"].drop_duplicates(["dataset", "setting"])
    return (
        f"{(~compared['status'].isin(ABSENT)).sum()} of {len(compared)} printed values were run:"
        f" {told}. Of"
        f" {rows['clear pairs'].sum()} pairs of methods that the paper tells clearly apart"
        f" {rows['pairs compared'].sum()} were compared; {rows['pairs in order'].sum()} of these"
        " stand in its order."
        f" In accuracy {stands}."
    )


def _stands(ran: pd.DataFrame) -> str:
    """FedFomo's place in each row in which another method was run too."""
    several = ran["dataset"].nunique() > 1
    places = []
    for (dataset, setting), row in ran.groupby(["dataset", "setting"], sort=False):
        of = row.set_index("method")["ours"]
        if OURS[0] not in of or len(of) == 1:
            continue
        own, others = of[OURS[0]], of.drop(OURS[0])
        level = int((others == own).sum())
        where = setting_words(f"{dataset}, {setting}" if several else setting)
        places.append(
            f"{_th(int((others > own).sum()) + 1)} of {len(of)}"
            + (f", level with {level} other{'s' * (level > 1)}," if level else "")
            + f" on {where}"
        )
    return f"{OURS[0]} is {'; '.join(places)}" if places else f"{OURS[0]} stands beside no other"


def at_full_size(ran: pd.DataFrame) -> str:
    """What came out at the paper's own size, beside a page of the small profile; empty where
    nothing was run.  `ran`: `comparison.at_full_size`.
    """
    if ran.empty:
        return ""
    told = []
    for row in ran.to_dict("records"):
        ours = row["status"] if pd.isna(row["ours"]) else f"{row['ours']:.1f}"
        told.append(f"{row['method']} {ours} (paper {row['paper']:.1f})")
    settings = ran[["dataset", "setting"]].drop_duplicates()
    where = "; ".join(f"{dataset}, {setting}" for dataset, setting in settings.to_numpy())
    seeds = f"{ran['seeds'].min()} to {ran['seeds'].max()}" if ran["seeds"].nunique() > 1 else ""
    seeds = seeds or f"{ran['seeds'].max()}"
    return (
        f" At the paper's own size, {setting_words(where)}, on {seeds}"
        f" seed{'' if seeds == '1' else 's'}: {', '.join(told)}."
    )


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


def cluster_splits(found: pd.DataFrame) -> str:
    """Where CFL never splits, and so is FedAvg with uniform weights under another name, and where
    it does from which round on.  `found`: `numbers.splits`.
    """
    ran = found[found["clusters"].notna()]
    if ran.empty:
        return "None of CFL's runs is stored."
    several, seeds = found["dataset"].nunique() > 1, found["seed"].nunique() > 1
    names = pd.Series(
        [
            setting_words(f"{line.dataset}, {line.setting}" if several else line.setting)
            + (f" (seed {line.seed})" if seeds else "")
            for line in ran.itertuples()
        ],
        ran.index,
    )
    never = ran["splits"].str.startswith("never")
    short = never & ran["may split from"].isna()
    told = []
    if never.any():
        told.append(
            f"CFL never splits on {'; '.join(names[never])}: there it is FedAvg with uniform"
            " weights under another name."
        )
    if short.any():
        who = "These runs" if (short == never).all() else f"Of these, {'; '.join(names[short])}"
        told.append(f"{who} ended before a split was allowed.")
    still = ran[never & ~short]
    if len(still) and (still["lowest |mean u|"] >= still["epsilon_1"]).all():
        told.append(
            f"Its mean update would have to fall below {still['epsilon_1'].iloc[0]:g}, and is"
            f" {still['lowest |mean u|'].min():.2f} at its lowest."
        )
    if len(still) and (still["longest update"] <= still["epsilon_2"]).all():
        told.append(
            f"An update would have to be longer than {still['epsilon_2'].iloc[0]:g}, and the"
            f" longest has {still['longest update'].max():.2f}."
        )
    told += [
        f"On {name} it is FedAvg until round {line['FedAvg until']} and ends with"
        f" {line['clusters']} clusters."
        for name, line in zip(names[~never], ran[~never].to_dict("records"), strict=True)
    ]
    return " ".join(told)
