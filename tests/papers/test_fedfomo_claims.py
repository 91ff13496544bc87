"""What FedFomo's pages say of their numbers, on made-up results: groups found, traffic, leads and
sentences.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfl_lib.display import lines
from pfl_lib.papers import fedfomo, groups, traffic
from pfl_lib.papers.fedfomo import (
    D5,
    DOWNLOADS,
    EPSILONS,
    FIGURE2,
    FIGURE3,
    METHODS,
    SHARES,
    TABLE1,
    TABLE2,
    claims,
    figures,
    sentences,
)
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result

SMALL = fedfomo.profiles(TABLE1)["small"]
FULL = fedfomo.profiles(TABLE1)["paper"]
TRUTH = np.array([0, 0, 1, 1])


def result(percent: float, rounds: int = 2, **given) -> Result:
    rows = [
        {"round": r, "client": c, "accuracy": percent / 100, "models_up": 15, "models_down": 60}
        for r in range(1, rounds + 1)
        for c in range(15)
    ]
    return Result({"alice": None}, pd.DataFrame(rows), None, None, 1.0, **given)


def shelf(table, profile, percent):
    """`find` of a store whose runs have accuracy percent(data set, setting, method, seed)."""
    there = {}
    for row in table.rows:
        part = table.only([row.setting], datasets=[row.dataset])
        for column in part.columns:
            for seed in profile.seeds:
                run = part.spec(row.setting, column.name, profile, seed)
                there[run] = result(percent(row.dataset, row.setting, column.name, seed))
    return there.get


def printed(table):
    values = {place[:3]: value.value for place, value in table.printed().items()}
    return lambda dataset, setting, method, seed: values[dataset, setting, method]


# --- affinities and weights ---


def test_affinities_in_blocks_give_the_groups_and_the_means_are_those_within_and_across():
    """Two groups of two: P is 3 and 1 within, -1 across but for one -5, the diagonal does not
    count: within (3 + 3 + 1 + 1) / 4 = 2; across (7 x -1 - 5) / 8 = -1.5.
    """
    p = np.array([[9, 3, -1, -1], [3, 9, -1, -5], [-1, -1, 9, 1], [-1, -1, 1, 9]], dtype=np.float32)
    [line] = groups.recovery(p[None], [7], TRUTH).to_dict("records")
    assert (line["round"], line["within"], line["across"]) == (7, 2.0, -1.5)
    assert (line["clients"], line["of"], line["Rand index"]) == (4, 4, 1.0)


def test_affinities_that_pair_clients_of_two_groups_find_none():
    """Client 0 is nearest to 2, and 1 to 3: of pairs that belong together none is found, and by
    chance a third would be: (0 - 2/3) / (2 - 2/3) = -0.5.
    """
    p = np.zeros((4, 4))
    p[0, 2] = p[2, 0] = p[1, 3] = p[3, 1] = 1.0
    [line] = groups.recovery(p[None], [1], TRUTH).to_dict("records")
    assert (line["clients"], line["Rand index"]) == (0, pytest.approx(-0.5))


def test_a_client_alone_in_its_group_does_not_count_among_those_that_share_one():
    [line] = groups.recovery(np.eye(3)[None], [1], np.array([0, 0, 1])).to_dict("records")
    assert line["of"] == 2


def test_weights_are_shared_out_to_own_model_group_and_others_and_who_went_back_is_counted():
    """Clients 0 and 1: half own, half each other's; client 2: all to client 0; client 3 stopped."""
    w = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    [line] = groups.listened_to(w[None], [4], TRUTH).to_dict("records")
    assert (line["own model"], line["same group"]) == (25.0, 25.0)
    assert (line["other groups"], line["stopped"]) == (25.0, 25.0)


def test_the_truth_is_the_group_of_each_client():
    assert groups.truth_of(fedfomo.FIVE_GROUPS).tolist() == [i // 3 for i in range(15)]


# --- what is sent ---


def test_traffic_is_what_one_client_receives_and_sends_in_one_round():
    """15 clients, 2 rounds, 60 models down a round: 4 each.  Bytes of all: 30 client-rounds of
    1 MB up and 4 MB down.
    """
    part = TABLE1.only(["pathological_15_clients"], ["FedFomo (n=5)"], ["MNIST"])
    run = part.spec("pathological_15_clients", "FedFomo (n=5)", SMALL, 1)
    found = {run: result(98.0, bytes=(30 * 2**20, 4 * 30 * 2**20))}
    [line] = traffic.per_round(Runs((part.scaled(SMALL),), found.get)).to_dict("records")
    assert (line["models down"], line["models up"]) == (4.0, 1.0)
    assert (line["MB down"], line["MB up"], line["accuracy"]) == (4.0, 1.0, pytest.approx(98))


def test_traffic_of_what_was_not_run_has_no_line():
    part = TABLE1.only(["pathological_100_clients"], ["FedAvg"], ["CIFAR10"]).scaled(SMALL)
    assert traffic.per_round(Runs((part,), lambda run: None)).empty


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_run_that_diverged_has_no_accuracy_and_sends_nothing_that_is_counted(rounds):
    """In its first round, before any was evaluated, or later."""
    part = TABLE1.only(["pathological_15_clients"], ["pFedMe", "FedFomo (n=5)"], ["CIFAR10"])
    lost, ended = part.runs(SMALL)
    diverged = replace(result(98.0, max(rounds, 1)), diverged=rounds + 1)
    if not rounds:  # what methods send is then not among the columns
        diverged.metrics = diverged.metrics[["round", "client", "accuracy"]][:0]
    find = {lost: diverged, ended: result(97.0)}.get
    sent = traffic.per_round(Runs((part.scaled(SMALL),), find))
    assert list(sent["method"]) == ["FedFomo (n=5)"]


# --- claims ---


def test_by_the_papers_numbers_the_lead_grows_with_100_clients_on_both_data_sets():
    """MNIST: 99.62 - 99.79 and 98.81 - 94.25; CIFAR10: 93.01 - 93.85 and 92.10 - 85.42."""
    frame = claims.leads(SMALL, shelf(TABLE1, SMALL, printed(TABLE1)))
    assert list(frame["paper's leads"]) == ["-0.17, 4.56", "-0.84, 6.68"]
    assert list(frame["paper grows"]) == ["yes", "yes"]
    assert list(frame["grows"]) == ["yes (1 of 3 seeds)"] * 2
    assert frame["lead, 100 clients"].tolist() == pytest.approx([4.56, 6.68])
    assert list(frame["best other, 15 clients"]) == ["LG-FedAvg", "MOCHA"]


def test_a_method_that_diverged_is_not_the_best_other_and_is_named():
    """LG-FedAvg, the best of the others on MNIST with 15 clients, is lost there: what is left is
    FedFomo's 99.62 less Local's 99.62.
    """
    find = shelf(TABLE1, SMALL, printed(TABLE1))
    part = TABLE1.only(["pathological_15_clients"], ["LG-FedAvg"], ["MNIST"])
    [lost] = part.runs(SMALL)
    diverged = replace(result(98.0), diverged=2)
    frame = claims.leads(SMALL, lambda run: diverged if run == lost else find(run))
    mnist = frame.set_index("dataset").loc["MNIST"]
    assert mnist["best other, 15 clients"] == "Local Training (LG-FedAvg diverged)"
    assert mnist["lead, 15 clients"] == pytest.approx(0.0)
    assert mnist["grows"] == "yes (1 of 3 seeds)"


def test_a_lead_without_runs_is_not_run_and_no_answer_in_the_quick_profile():
    frame = claims.leads(SMALL, lambda run: None)
    assert set(frame["grows"]) == {"not run"} and frame["lead, 15 clients"].isna().all()
    quick = fedfomo.profiles(TABLE1)["quick"]
    frame = claims.leads(quick, shelf(TABLE1, quick, printed(TABLE1)))
    assert set(frame["grows"]) == {"no answer (quick profile)"}


def test_by_the_papers_own_table_2_mocha_is_ahead_of_fedfomo_on_two_distributions():
    """83.79 against 77.82 and 79.59: the sentence about MOCHA and LG-FedAvg does not hold there."""
    profile = fedfomo.profiles(TABLE2)["paper"]
    frame = claims.about_tables([TABLE2], profile, shelf(TABLE2, profile, printed(TABLE2)))
    words = dict(zip(frame["claim"].str[:30], frame["here"], strict=True))
    assert words["FedFomo also outperforms perso"] == "no"
    assert words["[FedFomo] outperforms both [lo"] == "yes"
    assert words["[in the most extreme non-IID c"] == "yes"


def by_downloads_and_epsilon(best: dict[str, float]):
    profile = fedfomo.profiles(FIGURE3)["paper"]
    return profile, shelf(FIGURE3, profile, lambda d, s, method, seed: best[method] + 0.01 * seed)


def test_epsilon_matters_where_accuracy_rises_with_it_and_m_helps_where_it_rises_with_m():
    rising = {f"ε = {e:g}": 60 + 10 * k for k, e in enumerate(EPSILONS)}
    rising |= {f"M = {m}": 70 + 5 * (k - 1) for k, m in enumerate(DOWNLOADS)}
    profile, find = by_downloads_and_epsilon(rising)
    assert list(claims.ablations(profile, find)["here"]) == ["yes", "no"]
    flat = dict.fromkeys(rising, 70.0)
    profile, find = by_downloads_and_epsilon(flat)
    assert list(claims.ablations(profile, find)["here"]) == ["undecided", "yes"]


def test_one_seed_leaves_what_is_said_about_a_figure_without_numbers_open():
    small = fedfomo.profiles(FIGURE3)["small"]
    rising = {f"ε = {e:g}": 60 + 10 * k for k, e in enumerate(EPSILONS)}
    rising |= {f"M = {m}": 70 + 5 * (k - 1) for k, m in enumerate(DOWNLOADS)}
    find = shelf(FIGURE3, small, lambda d, s, method, seed: rising[method])
    assert set(claims.ablations(small, find)["here"]) == {"undecided (1 of 3 seeds)"}


@pytest.mark.parametrize(
    ("high", "word"), [(70.0, "yes"), (79.9, "undecided"), (85.0, "no")], ids=str
)
def test_a_share_under_one_half_is_better_where_it_is_above_every_other_by_the_floor(high, word):
    numbers_ = [80.0 if share < 0.5 else high for share in SHARES]
    frame = pd.DataFrame({"share": SHARES, "final": numbers_, "all rounds": numbers_, "seeds": 3})
    assert claims.under_half(frame, FULL) == word
    assert claims.under_half(frame.assign(seeds=1), FULL) == "undecided (1 of 3 seeds)"
    assert claims.under_half(frame.assign(seeds=0), FULL) == "not run"
    quick = fedfomo.profiles(TABLE1)["quick"]
    assert claims.under_half(frame, quick) == "no answer (quick profile)"


@pytest.mark.parametrize(("turned", "word"), [(0, "yes"), (3, "undecided"), (15, "no")])
def test_groups_are_found_where_every_client_has_a_higher_affinity_for_its_own(turned, word):
    """The first `turned` clients have a higher one for all others; half of them or fewer: no."""
    profile = fedfomo.profiles(FIGURE2)["small"]
    truth = groups.truth_of(fedfomo.FIVE_GROUPS)
    p = (truth[:, None] == truth[None]).astype(float)
    p[:turned] = 1 - p[:turned]
    part = FIGURE2.only([D5])
    run = part.spec(D5, "FedFomo (n=5)", profile, 1)
    found = result(80.0, matrices={"affinity": p[None]}, matrices_rounds=np.array([10]))
    frame = claims.upweighted(profile, {run: found}.get)
    assert list(frame["upweighted"]) == [word] and list(frame["setting"]) == [D5]


# --- sentences and pictures ---


def test_the_answers_say_what_was_not_run():
    assert sentences.recovered({}, False) == sentences.NOTHING
    shares = pd.DataFrame({"share": [0.1], "final": [math.nan], "all rounds": [math.nan]})
    assert sentences.held_out(shares, claims.halves(shares), False) == sentences.NOTHING
    assert sentences.leading(pd.DataFrame({"a": [math.nan]}), False) == sentences.NOTHING


def test_the_answer_of_figure_2_counts_clients_and_settings():
    """14 of 15 and 10 of 10 clients; the groups are found in one of two settings, and were
    before in the other, where the mean affinity within groups sinks.
    """
    columns = ["round", "clients", "of", "Rand index", "within"]
    found = {
        "a": pd.DataFrame([(9, 15, 15, 1.0, 0.1), (10, 14, 15, 0.64, -0.5)], columns=columns),
        "b": pd.DataFrame([(9, 9, 10, 0.8, 0.1), (10, 10, 10, 1.0, 0.2)], columns=columns),
    }
    said = sentences.recovered(found, True)
    assert said.startswith("After the last round 24 of 25 clients in 2 settings have a higher mean")
    assert "exactly in 1 of the 2: the adjusted Rand index is 0.64 to 1.00" in said
    assert (
        "was higher in an earlier round in 1." in said and "In 1 of the 2 the mean affinity" in said
    )
    assert said.endswith(sentences.NO_VERDICT)


def test_the_answer_of_figure_3_tells_epsilon_from_m():
    final = pd.Series(
        {"ε = 0": 48.0, "ε = 0.3": 47.9, "M = 2": 46.7, "M = 5": math.nan, "M = 15": 49}
    )
    assert sentences.ablations(final, False) == (
        "Accuracy after the last round: with ε = 0, 0.3 it is 48.0, 47.9 % (0.1 points between the"
        " highest and the lowest); with M = 2, 15 it is 46.7, 49.0 % (2.3 points between the"
        " highest and the lowest)."
    )
    assert sentences.ablations(final * math.nan, False) == sentences.NOTHING


def test_the_answer_of_figure_9_counts_pairs_of_shares():
    """Two shares on each side; 47 and 47 are too close."""
    shares = {"share": [0.1, 0.4, 0.6, 0.9], "final": [50, 47, 47, 40], "all rounds": [4, 4, 5, 3]}
    shares = pd.DataFrame(shares, dtype=float)
    found = claims.halves(shares).set_index("measured")
    assert found.loc["after the last round"].to_dict() == {
        "pairs": 4,
        "higher": 3,
        "lower": 0,
        "open": 1,
    }
    assert found.loc["over all rounds"].to_dict() == {
        "pairs": 4,
        "higher": 2,
        "lower": 2,
        "open": 0,
    }
    assert sentences.held_out(shares, claims.halves(shares), False) == (
        "Accuracy after the last round is highest, 50.0 %, with a share of 0.1 held out, and"
        " lowest, 40.0 %, with 0.9. Of 4 pairs of a share under one half and one above, the smaller"
        " one is more than 0.4 points higher in 3 after the last round, in 2 over all rounds."
    )


def test_numbers_on_an_axis_do_not_run_into_each_other():
    assert lines.apart(list(SHARES)) == [0.01, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9]
    assert lines.apart([2, 3, 4, 5, 10]) == [2, 3, 4, 5, 10]


def test_the_answer_of_figure_1_counts_where_fedfomo_is_ahead():
    """+5 on two groups, -1 on ten."""
    pivot = pd.DataFrame({"FedAvg": [70.0, 90.0], "FedFomo (n=5)": [75.0, 89.0]}, index=[2, 10])
    said = sentences.leading(pivot, False)
    assert "on 1 of 2 numbers" in said and "between −1.0 and +5.0 points" in said


def test_a_figure_tells_its_numbers_in_its_alt_text():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [math.nan, 3.0]}, index=[2, 10])
    _, alt = lines.of_table(table, "groups", "accuracy (%)")
    assert "a: 1.00 at 2, 2.00 at 10; b: 3.00 at 10" in alt
    weights = np.stack([np.full((4, 4), 0.25), np.kron(np.eye(2), np.full((2, 2), 0.5))])
    _, alt = figures.client_weights(weights, [1, 2], TRUTH)
    assert alt.endswith(
        "50% of the weight is on the client's own group in round 1, 100% in round 2."
    )


def test_every_claim_names_settings_and_methods_of_its_table():
    tables = {"table1": TABLE1, "table2": TABLE2, "table5": fedfomo.TABLE5}
    for name, told in claims.ABOUT.items():
        table = tables[name]
        names = {column.name for column in table.columns}
        settings = {row.setting for row in table.rows}
        for claim in told:
            for setting, better, worse in claim.above:
                assert setting in settings and {better, worse} <= names and better != worse
    assert len(METHODS) == 11


def test_what_is_said_beside_the_tables_is_counted_where_it_is_known():
    leads = pd.DataFrame({"grows": ["no (1 of 3 seeds)", "yes (1 of 3 seeds)", "undecided"]})
    groups = pd.DataFrame({"upweighted": ["yes", "no", "undecided"]})
    assert sentences.beside_the_tables(leads, groups, "undecided (1 of 5 seeds)") == (
        " Beside these, its lead grows with 100 clients on 1 of 3 data sets, undecided on 1; every"
        " client favours its own latent group in 1 of 3 settings, undecided on 1; that a validation"
        " share under one half does better: undecided (1 of 5 seeds)."
    )
    absent = pd.DataFrame({"grows": ["not run"]})
    alone = sentences.beside_the_tables(absent, pd.DataFrame(), "not run")
    assert alone == " Beside these, that a validation share under one half does better: not run."
    assert sentences.beside_the_tables(leads, groups, claims.QUICK) == ""


def test_the_answer_of_figure_7_tells_whence_and_whither_the_weight_goes():
    columns = ["round", "own model", "same group", "other groups", "stopped"]
    rows = [(1, 52.7, 32.9, 14.4, 0.0), (10, 8.8, 17.9, 0.0, 73.3)]
    assert sentences.listening(pd.DataFrame(rows, columns=columns), False) == (
        "Between rounds 1 and 10 the weight goes: the client's own model from 53 to 9 %, others of"
        " its latent group from 33 to 18 %, clients of other groups from 14 to 0 %. In the last"
        " round 73 % of the clients give no weight to any model and keep the one from before local"
        " training (*stopped*)."
    )
