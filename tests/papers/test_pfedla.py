"""pFedLA's tables: settings as printed, Table 3's costs, what small may cost, claims' rules."""

import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib.experiments.runner import run_many
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import PFedLA
from pfl_lib.papers import pfedla
from pfl_lib.papers.pfedla import claims, costs, figure_claims, sentences, toy, weights
from pfl_lib.partitions import Classes, Dominant, Neighbours
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store
from pfl_lib.results.summary import Ours

TABLES = (pfedla.TABLE1, pfedla.TABLE2, pfedla.TABLE3)


# --- descriptions ---


def test_every_printed_value_of_the_three_tables_has_its_place():
    sizes = [sum(not math.isnan(p.value) for p in table.printed().values()) for table in TABLES]
    assert sizes == [76, 76, 14]  # 10 methods x 8 columns, less FedBN's four


def test_settings_are_the_papers():
    for table, recipe in ((pfedla.TABLE1, Classes), (pfedla.TABLE2, Dominant)):
        for row in table.rows:
            schedule, wide = row.at.schedule, row.dataset == "CIFAR100"
            few = row.at.clients == 10
            assert (schedule.rounds, schedule.local_epochs) == ((600, 10) if few else (2500, 20))
            assert schedule.participation == (1.0 if few else 0.1) and schedule.batch_size == 32
            coloured = row.dataset.startswith("CIFAR")
            assert schedule.lr == (0.01 if coloured else 0.005)
            assert (schedule.momentum, schedule.weight_decay) == (0, 0)
            assert row.at.model == ("pfedla_cnn-norm" if coloured else "pfedla_cnn")
            classes = getattr(row.at.partition, "per_client" if recipe is Classes else "classes")
            assert classes == {Classes: (4, 12), Dominant: (2, 6)}[recipe][wide]
            assert row.at.partition.examples == 600 and row.at.partition.train_share == 0.7
            assert row.at.alice is None and row.at.measures == ("trained",)


def test_fedbn_runs_where_the_network_has_norms_and_nowhere_else():
    profile = pfedla.FULL.with_seeds(1)
    on = {run.dataset for run in pfedla.TABLE1.only(columns=["FedBN"]).runs(profile)}
    assert on == {"cifar10", "cifar100"}


def test_the_hypernetworks_step_is_the_measured_one_at_the_measured_length():
    for dataset, step in (("CIFAR10", 1.0), ("FashionMNIST", 4.0)):
        paper = pfedla.setting(dataset)
        assert pfedla.hypernetwork_step(pfedla.SMALL.make(paper)) == step
        assert pfedla.hypernetwork_step(paper) == step / 40  # 6,000 epochs in place of 150


@pytest.mark.parametrize("number", [1, 2])
def test_a_table_of_the_small_profile_takes_less_than_an_hour_of_two_cores(number):
    """A run of 60 rounds of 10 epochs of 4,200 images was measured at 10 minutes of one core: 4,200
    images a second.  `examples` leaves out the epochs that the measure "trained" adds."""
    runs = TABLES[number - 1].runs(pfedla.SMALL)
    images = 0.0
    for run in runs:
        evaluated = -(-run.schedule.rounds // run.evaluate_every)
        images += run.examples() + evaluated * run.schedule.local_epochs * 4200
    assert {run.dataset for run in runs} == {"cifar10", "fashion_mnist"} and len(runs) == 19
    assert images / 4200 <= 2 * 3600


# --- Table 3 ---


def test_all_seven_costs_of_table_3_are_the_printed_ones_to_a_fiftieth_of_a_megabyte():
    """3,000 bytes for each of 2P - (retained) numbers: 600 rounds x 10 clients x 4 bytes / 8.

    EMNIST: P = 85,822; CIFAR10: P = 121,278 with the norms' 96.  The printed values have two
    decimals, so ours are rounded to two as well.
    """
    table = costs.costs()
    assert list(zip(table["dataset"], table["k"], strict=True)) == [
        *(("EMNIST", k) for k in range(3)),
        *(("CIFAR10", k) for k in range(4)),
    ]
    assert (table["counted / 8"].round(2) - table["paper"]).abs().max() <= 0.02 + 1e-9
    assert table["counted"].tolist() == pytest.approx((8 * table["counted / 8"]).tolist())
    assert costs.megabytes("EMNIST", ("fc3",)) / 8 * 2**20 == 3000 * (2 * 85_822 - 850)


def test_what_the_learned_choice_sends_stands_beside_the_printed_costs():
    """600 MB for k = 0 and 1 of CIFAR10, two seeds; nothing ran on EMNIST."""
    rows = [
        {"dataset": "CIFAR10", "method": f"HeurpFedLA k={k}", "metric": metric, "value": value}
        for k in (0, 1)
        for metric, values in (("communication_MB", (590.0, 610.0)), ("accuracy_percent", (60, 62)))
        for value in values
    ]
    frame = pd.DataFrame(rows).assign(status="ran")
    sent = costs.beside_runs(costs.costs(), frame)
    learned = sent.set_index(["dataset", "k"])["learned choice / 8"]
    assert learned["CIFAR10"].tolist()[:2] == [600.0, 600.0] and learned.isna().sum() == 5


def ran_on(**data_sets: str) -> dict[str, Result]:
    """A run for each of the paper's data sets, on the data beside it."""
    return {
        name: Result({"dataset": ours}, None, None, None, 0.0) for name, ours in data_sets.items()
    }


def test_figures_sentences_speak_of_each_data_set():
    found = ran_on(CIFAR10="cifar10", FashionMNIST="fashion_mnist")
    brief = pd.DataFrame(
        {
            "dataset": ["CIFAR10", "CIFAR10", "FashionMNIST"],
            "order": ["same > similar > others", "others > same > similar"] + ["same = similar"],
        }
    )
    assert sentences.figure_5(brief, found).endswith(
        "in 1 of 2 layers on CIFAR10, 0 of 1 layers on FashionMNIST."
    )
    table = pd.DataFrame(
        {
            "dataset": ["CIFAR10", "CIFAR10", "FashionMNIST"],
            "own weight highest": ["8 of 8", "7 of 8", "8 of 8"],
            "rank correlation": [-0.9, 0.1, -0.5],
        }
    )
    said = sentences.figure_6(table, found)
    assert "CIFAR10, 1 of 2 layers" in said and "rank correlation -0.90 to +0.10" in said
    assert "FashionMNIST, 1 of 1 layers" in said and "rank correlation -0.50 to -0.50" in said


def test_figures_sentences_say_on_which_data_a_run_was_where_the_papers_are_replaced():
    found = ran_on(EMNIST="mnist", CIFAR10="cifar10")
    sets = {"dataset": ["EMNIST", "CIFAR10"]}
    order = pd.DataFrame(sets | {"order": "same > similar > others"})
    said = sentences.figure_5(order, found)
    assert said.endswith("in 1 of 1 layers on EMNIST (run on mnist), 1 of 1 layers on CIFAR10.")
    own = pd.DataFrame(sets | {"own weight highest": "8 of 8", "rank correlation": -0.5})
    assert "EMNIST (run on mnist), 1 of 1" in sentences.figure_6(own, found)
    largest = pd.DataFrame(sets | {"largest here": "fc1", "largest in the paper": "fc3"})
    assert "EMNIST (run on mnist), fc1 (paper: fc3); CIFAR10, fc1" in (
        sentences.figure_7(largest, found)
    )


def test_a_layer_counted_elsewhere_would_show_in_the_costs():
    swapped = costs.megabytes("CIFAR10", ("conv2",)) / 8
    assert abs(swapped - 418.97) > 200


@pytest.mark.parametrize("retained", [(), ("fc1",), ("fc1", "conv2", "fc3")])
def test_a_run_that_retains_these_layers_sends_what_is_counted(retained, tmp_path):
    """On digits of 1 x 28 x 28, with norms: P = 85,822 + 96."""
    spec = RunSpec(
        PFedLA(retained=retained),
        Schedule(rounds=2, batch_size=64, lr=0.05),
        dataset="digits",
        partition=Classes(4, examples=40),
        model="pfedla_cnn-norm",
        alice=None,
    )
    store = Store(tmp_path, published=None)
    (result,) = run_many([spec], store, jobs=1, progress=False)
    sizes = {"fc1": 61_560, "conv2": 12_832, "fc3": 850}
    numbers = 2 * 85_918 - sum(sizes[name] for name in retained)
    assert sum(result.bytes) == pytest.approx(2 * 10 * 4 * numbers)
    counted = costs.printed_megabytes(result, "last", "clients", "served")
    assert counted == pytest.approx(3000 * numbers / 2**20)


# --- a quick row, from end to end ---


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("results"), published=None)
    part = pfedla.TABLE1.only(
        ["non_iid_1_10_clients"],
        ["FedAvg", "FedBN", "pFedLA", pfedla.TUNED.name],
        ["EMNIST", "CIFAR10"],
    )
    profile = pfedla.QUICK.with_rounds(1)
    run_many(part.runs(profile), store, jobs=1, progress=False)
    return part, profile, store


def test_a_profile_without_a_run_says_so_in_one_line():
    with pytest.raises(ValueError, match="quick profile does not run pFedLA on non_iid_1_100"):
        pfedla.TABLE1.spec("non_iid_1_100_clients", "pFedLA", pfedla.QUICK, 1)


def test_a_bigger_profile_counts_what_it_leaves_out():
    assert "CIFAR10 and FashionMNIST" in pfedla.SMALL.banner
    assert "whether the paper's hold" not in pfedla.SMALL.banner
    assert "whether the paper's hold" in pfedla.QUICK.banner
    assert "The paper has 600 and 2,500 rounds and 8 to 100 clients." in pfedla.SMALL.banner


# --- weights ---


def result_with(matrix, model="pfedla_cnn"):
    """A result of two kept rounds, equal weights and then `matrix` [N, N] for every layer."""
    n, count = len(matrix), len(costs.layers_of(model))
    both = np.stack([np.full((count, n, n), 1 / n), np.stack([matrix] * count)])
    config = {"model": model}
    return Result(config, None, both, None, 0.0, weights_rounds=np.array([1, 9]))


def test_classes_not_shared_are_counted_round_the_ten():
    apart = weights.unshared_classes(Neighbours(), 8, 10)
    assert apart[0].tolist() == [0, 1, 2, 3, 4, 4, 4, 3]  # client 7 has 7, 8, 9 and client 0's 0
    assert (apart == apart.T).all()


def test_figure_6_ranks_weights_against_class_distance():
    """Weight 4 - (classes not shared) + 1 on the diagonal falls with distance: correlation -1."""
    apart = weights.unshared_classes(Neighbours(), 8, 10)
    near = (5.0 - apart) / (5.0 - apart).sum(1, keepdims=True).max()
    for matrix, highest, expected in ((near, "8 of 8", -1.0), (1 - near, "0 of 8", 1.0)):
        table = weights.figure_6({"CIFAR10": result_with(matrix)}, pfedla.FIGURE6, pfedla.FULL)
        assert table["own weight highest"].tolist() == [highest] * 5
        assert table["rank correlation"].tolist() == pytest.approx([expected] * 5)
    equal = weights.figure_6(
        {"CIFAR10": result_with(np.full((8, 8), 1 / 8))}, pfedla.FIGURE6, pfedla.FULL
    )
    assert equal["own weight highest"].tolist() == ["0 of 8"] * 5
    assert equal["rank correlation"].isna().all()


def test_layers_that_the_paper_counts_are_all_but_the_norms():
    own = pd.Series([0.2, 0.1, 0.9], index=["conv1", "norm1", "fc1"])
    assert weights.without_norms(own).to_dict() == {"conv1": 0.2, "fc1": 0.9}


def test_figure_5_names_the_order_of_the_targets_neighbours():
    matrix = np.full((8, 8), 0.05)
    matrix[0, :3] = 0.4, 0.2, 0.15
    table = weights.figure_5({"CIFAR10": result_with(matrix)}, pfedla.FULL)
    assert table["round"].tolist()[:3] == [1, 1, 9]  # of two kept rounds the middle is the first
    assert set(weights.nearest_first(table)["order"]) == {"same > similar > others"}
    matrix[0, 1:3] = 0.15, 0.2
    table = weights.figure_5({"CIFAR10": result_with(matrix)}, pfedla.FULL)
    assert set(weights.nearest_first(table)["order"]) == {"similar > same > others"}


def test_figure_7_finds_the_layer_that_keeps_most_to_itself():
    result = result_with(np.eye(8), model="pfedla_cnn")
    assert weights.largest_layers(weights.figure_7({"CIFAR10": result}, pfedla.FULL))[
        "largest here"
    ].tolist() == ["none"]
    result.weights[-1, :4] = 0.1
    brief = weights.largest_layers(weights.figure_7({"EMNIST": result}, pfedla.FULL))
    assert brief.loc[0].tolist() == ["EMNIST", "fc3", "fc3", "yes"]


# --- claims, on made-up results ---


def made_up(values, seeds=(1, 2, 3)):
    return Ours(seeds=seeds, values=tuple(values for _ in seeds))


def one_row():
    part = pfedla.TABLE1.only(["non_iid_1_10_clients"], datasets=["CIFAR10"])
    printed = claims._printed(part)
    return part, printed


@pytest.mark.parametrize(
    ("lead", "holds"), [(2.0, True), (-2.0, False), (0.2, None)], ids=["above", "below", "close"]
)
def test_a_row_is_won_where_the_better_of_ours_beats_the_best_baseline(lead, holds):
    part, printed = one_row()
    ours = {place: made_up(50.0) for place in printed}
    ours["CIFAR10", "non_iid_1_10_clients", "HeurpFedLA"] = made_up(50.0 + lead)
    if lead < 0:
        ours["CIFAR10", "non_iid_1_10_clients", "pFedLA"] = made_up(50.0 + lead)
    ((_, _, here, own),) = claims.wins(part, ours, printed)
    assert here is holds and own is True  # 61.43 +- 0.56 beside Local's 59.44 +- 0.40


def test_a_row_with_a_method_that_did_not_run_is_open():
    part, printed = one_row()
    ours = {place: made_up(50.0) for place in printed}
    ours["CIFAR10", "non_iid_1_10_clients", "pFedLA"] = made_up(60.0)
    del ours["CIFAR10", "non_iid_1_10_clients", "FedRep"]
    assert claims.wins(part, ours, printed)[0][2] is None


def test_most_cases_are_more_than_half():
    assert claims.in_most([True, True, None]) == "yes"
    assert claims.in_most([True, False]) == "no"
    assert claims.in_most([True, None]) == "undecided" == claims.in_most([])


def test_most_cases_say_on_how_few_seeds_any_method_of_a_row_rests(monkeypatch):
    """Three seeds each, but FedAvg, neither the first nor the last of its row, with one."""

    def ours(table, profile, find):
        found = {place: Ours((1, 2, 3), values=(50.0,) * 3) for place in claims._printed(table)}
        return found | {place: Ours((1,), values=(50.0,)) for place in found if "FedAvg" in place}

    monkeypatch.setattr(claims, "_ours", ours)
    line = claims.most_cases(pfedla.SMALL, None).iloc[0]
    assert line["here"] == "undecided (1 of 3 seeds)"


def test_what_weights_show_is_answered_from_the_runs_of_every_data_set_that_is_judged():
    """Eight clients weigh by classes shared (own 5/19 from 1/8 at first); ten keep all layers to
    themselves alike, so that none is the largest: undecided."""
    near = (5.0 - weights.unshared_classes(Neighbours(), 8, 10)) / 19
    asked = set()

    def find(run):
        asked.add(run.dataset)
        if run.clients == 6:
            return None
        return result_with(near if run.clients == 8 else np.eye(10), run.model)

    shown = figure_claims.about_figures(pfedla.SMALL, find)
    assert shown["here"].tolist() == ["not run"] * 2 + ["yes"] * 4 + ["undecided"]
    assert asked == {"cifar10", "fashion_mnist"}
    lines = shown["numbers here"]
    assert lines[4] == (
        "FashionMNIST: yes (rank correlation -1.00 in conv1); CIFAR10: yes (rank correlation -1.00"
        " in conv1)"
    )
    # Own 5/19, the next neighbour's 4/19.
    assert lines[5] == "FashionMNIST: yes (+0.05); CIFAR10: yes (+0.05)"


@pytest.mark.parametrize("scale", [0.0, 0.02])
def test_weights_that_differ_by_less_than_a_hundredth_answer_nothing(scale):
    """Equal weights, and such that lean to near clients by a fiftieth of themselves: ranks alone
    would say yes."""
    lean = scale * (2.0 - weights.unshared_classes(Neighbours(), 8, 10)) / 4
    find = lambda run: None if run.clients == 6 else result_with((1 + lean) / 8, run.model)  # noqa: E731
    shown = figure_claims.about_figures(pfedla.SMALL, find)
    assert shown["here"].tolist()[2:6] == ["undecided"] * 4


@pytest.mark.parametrize(
    ("leads", "holds"),
    [
        ([0.02, 0.2], True),
        ([0.2, -0.02], False),
        ([0.2, 0.005], None),
        ([-0.005], None),
        ([], None),
    ],
)
def test_weights_are_larger_by_more_than_a_hundredth(leads, holds):
    assert figure_claims.larger(leads) is holds


@pytest.mark.parametrize(
    ("moved", "margin", "holds"),
    [(-3.0, 0.4, True), (-3.3, 0.4, None), (3.8, 0.4, None), (-4.0, 0.4, False), (1.0, 9.0, None)],
)
def test_an_accuracy_stays_where_its_margin_lies_within_the_limit(moved, margin, holds):
    assert claims.stays(moved, margin) is holds


def test_retained_layers_are_judged_with_the_margin_of_their_seeds(monkeypatch):
    """k=1 moves by -3.2 in the mean, -6.2, -3.2 and -0.2 by seed: two standard errors are 3.46.  By
    -20 on one seed, which says nothing of the spread.
    """
    first = Ours((1, 2, 3), values=(53.8, 56.8, 59.8))

    def ours(table, profile, find):
        names = {f"HeurpFedLA k={k}": made_up(60.0) for k in range(4)}
        names["HeurpFedLA k=1"] = first
        return {("CIFAR10", "non_iid_1_10_clients", name): of for name, of in names.items()}

    monkeypatch.setattr(claims, "_ours", ours)
    line = claims.unaffected(pfedla.SMALL, None).iloc[0]
    assert line["here"] == "undecided" and line["by the paper's own numbers"] == "yes"
    assert line["numbers here"] == "k=1: -3.20 ± 3.46, k=2: +0.00 ± 0.40, k=3: +0.00 ± 0.40"
    first = Ours((1,), values=(40.0,))
    line = claims.unaffected(pfedla.SMALL, None).iloc[0]
    assert line["here"] == "undecided (1 of 3 seeds)" and "k=1: -20.00" in line["numbers here"]


def test_without_results_no_claim_is_answered_and_the_paper_answers_for_itself(tmp_path):
    shown = claims.all_claims(pfedla.SMALL, Store(tmp_path, published=None).find)
    assert set(shown["here"]) == {"not run"}
    assert shown["by the paper's own numbers"].tolist() == [
        *("undecided", "undecided", "no", "yes", "yes", "–", "–", "–", "–", "–", "–", "–")
    ]
    quick = claims.all_claims(pfedla.QUICK, Store(tmp_path, published=None).find)
    assert (quick["here"] == "no answer (quick profile)").all()


# --- Figure 1 ---


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("toys"), published=None)
    profile = toy.PROFILES["quick"].with_rounds(2)
    run_many(toy.TABLE.runs(profile), store, jobs=1, progress=False)
    return profile, store


def test_the_toy_has_six_clients_of_four_out_of_nine_classes():
    for profile in toy.PROFILES.values():
        (run, *_) = toy.runs(profile)
        assert run.clients == 6 and run.recipe.per_client == 4 and run.recipe.leave_out == (9,)
    assert len(toy.runs(toy.PROFILES["small"])) == 4 * 3 + 4


def test_the_toys_leads_are_those_of_its_accuracies(toys):
    profile, store = toys
    ended = toy.accuracies(profile, store.find).set_index("method")
    lead = toy.leads(profile, store.find).set_index("whose")
    for whose in ("client 0", "all clients"):
        apart = ended.loc[toy.LAYER, whose] - ended.loc[toy.MODEL, whose]
        assert lead.loc[whose, "lead"] == pytest.approx(apart)
        assert lead.loc[whose, "above"] is None  # one seed
    (run,) = toy.TABLE.only(columns=[toy.LAYER]).runs(profile)
    by_client = store.find(run).by_client("accuracy", "last")
    assert ended.loc[toy.LAYER, "client 0"] == pytest.approx(100 * by_client[0])


def test_model_wise_weights_are_the_same_in_all_layers_and_layer_wise_ones_are_not(toys):
    own = toy.own_weights(*(toys[0], toys[1].find))
    assert own[toy.MODEL].nunique() == 1 and own[toy.LAYER].nunique() == 5
    assert own["layer"].tolist() == ["conv1", "conv2", "fc1", "fc2", "fc3"]
    figure, alt = toy.weights_figure(own)
    assert f"model-wise: conv1 {own[toy.MODEL][0]:.2f}" in alt and len(figure.axes[0].patches) == 10


def test_the_toys_sentence_says_who_is_above_whom_and_the_quick_one_that_it_is_no_verdict():
    lead = pd.DataFrame(
        {
            "whose": ["client 0", "all clients"],
            toy.LAYER: [72.0, 70.1],
            toy.MODEL: [70.0, 70.0],
            "lead": [2.0, 0.1],
            "plus or minus": [1.0, 0.5],
            "seeds": [3, 3],
            "above": [True, None],
        }
    ).astype({"above": object})
    own = pd.DataFrame({"layer": ["conv1", "fc1"], toy.LAYER: [0.2, 0.9], toy.MODEL: [0.5, 0.5]})
    said = toy.sentence(lead, own, quick=False)
    assert said == (
        "Layer-wise beside model-wise, accuracy after the last round (3 seeds): client 0: 72.0 %"
        " beside 70.0 %, +2.0 ± 1.0 points; all clients: 70.1 % beside 70.0 %, +0.1 ± 0.5 points."
        " Client 0 keeps most of fc1 (0.90) and least of conv1 (0.20). So layer-wise is above"
        " model-wise for client 0, and not told apart from it on average."
    )
    assert toy.sentence(lead, own, quick=True).endswith("no verdict.)")
    assert "Not both" in toy.sentence(lead.iloc[:0], own, quick=False)


@pytest.mark.parametrize(
    ("own", "leads"),
    [((0.2, 0.2, 0.9, 0.6, 0.6), [0.4, 0.1, 0.3]), ((0.5,) * 5, [0.0, 0.0, 0.0])],
)
def test_the_toys_layers_are_set_beside_their_mean(own, leads):
    table = pd.DataFrame({"layer": ["conv1", "conv2", "fc1", "fc2", "fc3"], toy.LAYER: own})
    assert toy.layer_leads(table) == pytest.approx(leads)
    assert toy.layer_leads(pd.DataFrame()) == []
