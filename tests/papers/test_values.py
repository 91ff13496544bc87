import math

from pfl_lib.papers import values
from tests.common import refused


def test_the_papers_print_558_values_126_settings_and_432_results():
    frame = values.load()
    assert len(frame) == 558
    assert frame.kind.value_counts().to_dict() == {"result": 432, "setting": 126}
    assert not frame.duplicated([*values.KEY, "metric"]).any() and frame.value.notna().all()
    accuracies = frame.query("metric == 'accuracy_percent'")["value"]
    assert accuracies.between(0, 100).all() and accuracies.max() > 90


def test_a_value_comes_with_the_spread_its_table_prints():
    assert values.value("waffle", "table1", "MNIST", "C", "FedAvg") == (98.56, 0.1)
    place = ("fedfomo", "table2", "CIFAR10", "latent_D10_15_clients", "FedAvg")
    assert values.value(*place) == (10.10, 3.65)
    cifar = values.value("waffle", "table1", "CIFAR10", "A", "Local")
    assert cifar.value == 77.1 and math.isnan(cifar.std)


def test_each_agents_shares_of_distribution_c_sum_to_one():
    table2 = values.load().query("paper == 'waffle' and table == 'table2'")
    totals = table2.groupby("method")["value"].sum()
    assert len(totals) == 10
    assert totals.round(9).eq(1).all()


def test_a_wrong_name_is_refused_with_the_names_the_table_has():
    words = "method of the printed values 'SGD' is not one of Local, FedAvg, SCAFFOLD, WE, WAFFLE"
    refused(words, values.value, "waffle", "table1", "MNIST", "C", "SGD")


def test_where_a_table_prints_two_numbers_the_metric_must_be_named():
    place = ("fedfomo", "table4", "CIFAR10", "dp_sigma1_D5_15_clients", "FedFomo")
    refused("epsilon, accuracy_percent", values.value, *place)
    assert values.value(*place, metric="epsilon").value == 6.89


def test_changing_the_loaded_frame_does_not_change_what_the_next_reader_gets():
    frame = values.load()
    frame["value"] = 0.0
    assert values.value("waffle", "table1", "MNIST", "C", "WE").value == 99.0
