"""pFedLA's tables: settings as printed, Table 3's costs, what small may cost, weights by layer."""

import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib.experiments.runner import run_one
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import PFedLA
from pfl_lib.papers import compare, layer_weights, pfedla
from pfl_lib.papers.runs import Runs
from pfl_lib.partitions import Classes, Dominant
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store
from tests.common import refused

TABLES = (pfedla.TABLE1, pfedla.TABLE2, pfedla.TABLE3)
QUICK, SMALL, FULL = pfedla.profiles(*TABLES).values()


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
            assert pfedla.hypernetwork_step(row.at) == (1 if coloured else 6) * (1 if few else 0.5)
            assert (schedule.momentum, schedule.weight_decay) == (0, 0)
            assert row.at.model == ("pfedla_cnn-norm" if coloured else "pfedla_cnn")
            classes = getattr(row.at.partition, "per_client" if recipe is Classes else "classes")
            assert classes == {Classes: (4, 12), Dominant: (2, 6)}[recipe][wide]
            assert row.at.partition.examples == 600 and row.at.partition.train_share == 0.7
            assert row.at.alice is None and row.at.measures == ("trained",)


def test_pfedlas_step_stands_behind_its_accuracies_that_ran_alone():
    runs = Runs((pfedla.TABLE3.scaled(SMALL),), lambda _: None)
    beside = compare.beside(runs)
    ran = beside["method"].eq("HeurpFedLA k=0")
    beside = beside.assign(ours=np.where(ran, 60.0, np.nan))
    marked = pfedla.with_steps(beside.assign(**{"exact ours": 61.0}), runs, [runs])
    ours = marked[ran & marked["dataset"].eq("CIFAR10")].set_index("metric")
    assert ours["mark"].to_dict() == {"accuracy_percent": " (step 2)", "communication_MB": ""}
    assert set(marked["mark"][~ran]) == {""}
    assert (ours["exact mark"] == ours["mark"]).all()
    assert "exact mark" not in pfedla.with_steps(beside, runs, [])


@pytest.mark.parametrize("number", [1, 2])
def test_a_table_of_the_small_profile_takes_less_than_an_hour_of_two_cores(number):
    """A run of 60 rounds of 10 epochs of 4,200 images was measured at 10 minutes of one core: 4,200
    images a second.  `examples` leaves out the epochs that the measure "trained" adds."""
    runs = TABLES[number - 1].runs(SMALL)
    images = 0.0
    for run in runs:
        evaluated = -(-run.schedule.rounds // run.evaluate_every)
        images += run.examples() + evaluated * run.schedule.local_epochs * 4200
    assert {run.dataset for run in runs} == {"cifar10", "fashion_mnist"} and len(runs) == 19
    assert images / 4200 <= 2 * 3600


@pytest.mark.parametrize("retained", [(), ("fc1", "conv2", "fc3")])
def test_a_run_that_retains_these_layers_sends_what_is_counted(retained, tmp_path):
    """On digits of 1 x 28 x 28, with norms: P = 85,822 + 96."""
    schedule, recipe = Schedule(rounds=1, batch_size=64, lr=0.05), Classes(4, examples=40)
    settings = {"partition": recipe, "model": "pfedla_cnn-norm", "alice": None}
    spec = RunSpec(PFedLA(retained=retained), schedule, "digits", **settings)
    result = run_one(spec, Store(tmp_path, published=None))
    sizes = {"fc1": 61_560, "conv2": 12_832, "fc3": 850}
    numbers = 2 * 85_918 - sum(sizes[name] for name in retained)
    assert sum(result.bytes) == pytest.approx(10 * 4 * numbers)
    counted = layer_weights.printed_megabytes(result, "last", "clients", "served")
    assert counted == pytest.approx(3000 * numbers / 2**20)


def test_a_profile_without_a_run_says_so_in_one_line():
    with pytest.raises(ValueError, match="quick profile does not run pFedLA on non_iid_1_100"):
        pfedla.TABLE1.spec("non_iid_1_100_clients", "pFedLA", QUICK, 1)


ROW = pfedla.TABLE1.only([pfedla.FEW], ["FedAvg", "pFedLA", pfedla.TUNED.name], ["CIFAR10"])


def runs_with(result, table=ROW):
    """The small profile's runs of a table, `result(spec)` each."""
    return Runs((table.scaled(SMALL),), result)


def test_a_model_is_read_as_served_and_after_own_epochs_and_pfedla_with_its_step():
    """Two clients, 60 and 80 % served, 10 points more after their own epochs (pFedLA: 20)."""

    def result(spec):
        more = 0.2 if spec.method.name == "pfedla" else 0.1
        metrics = pd.DataFrame({"round": 30, "client": [0, 1], "accuracy": [0.6, 0.8]})
        metrics["accuracy_trained"] = metrics["accuracy"] + more
        return Result({"alice": None}, metrics, None, None, 0.0)

    found = pfedla.served_and_trained(runs_with(result)).droplevel(["dataset", "setting"])
    assert found.index.tolist()[1] == ("pFedLA", 2.0)
    assert found["served"].tolist() == pytest.approx([70, 70, 80])
    assert found["trained"].tolist()[:2] == pytest.approx([80, 90])
    assert found["gain"].tolist()[1] == pytest.approx(20) and math.isnan(found["gain"].iloc[2])


def test_weights_by_layer_are_those_of_the_result_pair_by_pair():
    """Seven layers, two of them norms, of two clients in two kept rounds: a number each."""
    layers = layer_weights.layers_of("pfedla_cnn-norm")
    weights = np.arange(2 * 7 * 2 * 2, dtype=np.float32).reshape(2, 7, 2, 2)

    def result(spec):
        kept = weights if spec.method.name == "pfedla" else None
        rounds = None if kept is None else np.array([1, 9])
        return Result({}, None, kept, None, 0.0, weights_rounds=rounds)

    found = layer_weights.by_layer(runs_with(result))
    assert len(found) == weights.size and set(found["place"]) == {"CIFAR10, pFedLA, step 2"}
    place = found.set_index(["round", "layer", "client", "source"])["weight"]
    for k, layer in enumerate(layers):
        assert place[9, layer, 0, 1] == weights[1, k, 0, 1]
    assert set(found.loc[found["norm"], "layer"]) == {"norm1", "norm2"}


def test_weights_of_whole_models_are_the_same_in_all_layers_and_others_have_none():
    whole = np.array([[[0.25, 0.75], [0.5, 0.5]]])
    given = {"pfedla": whole, "fedavg": np.full((1, 2), 0.5)}
    runs = runs_with(lambda spec: Result({}, None, given[spec.method.name], None, 0.0))
    found = layer_weights.by_layer(runs)
    assert set(found["method"]) == {"pFedLA"}
    of_pair = found[(found["client"] == 0) & (found["source"] == 1)]
    assert of_pair["weight"].tolist() == [0.75] * 7


def test_without_runs_there_are_no_weights_and_no_accuracies():
    runs = runs_with(lambda spec: None)
    refused("no run of this page has weights", lambda: layer_weights.by_layer(runs))
    assert pfedla.served_and_trained(runs).empty
    lost = runs_with(lambda spec: Result({}, None, np.ones((1, 2, 2)), 2, 0.0))
    refused("lower lr if they diverged", lambda: layer_weights.by_layer(lost))


@pytest.mark.parametrize(
    ("leads", "holds"),
    [([0.02, 0.5], True), ([0.02, -0.02], False), ([0.02, 0.005], None), ([], None)],
)
def test_weights_that_differ_by_less_than_a_hundredth_answer_nothing(leads, holds):
    assert layer_weights.larger(leads) is holds


def test_pfedlas_lead_is_over_the_papers_other_methods_and_over_fedavg_after_own_epochs():
    numbers = {"Local Training": 60.0, "FedAvg": 65.0, "FedRep": None, "pFedLA": 70.0}
    numbers |= {"HeurpFedLA": 71.0, pfedla.TUNED.name: 68.0, "mine": 99.0}
    frame = pd.DataFrame({"method": numbers.keys(), "ours": numbers.values()})
    found = pfedla.leads(frame.assign(dataset="CIFAR10", setting="a", printed=float("nan")), "ours")
    assert found.loc["CIFAR10", "a"].to_dict() == {"others": 6, "tuned": 3, "ran": 2, "count": 3}
