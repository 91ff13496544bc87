import math

from pfl_lib.papers import values


def test_the_papers_print_558_values_126_settings_and_432_results():
    frame = values.load()
    assert len(frame) == 558
    assert frame.kind.value_counts().to_dict() == {"result": 432, "setting": 126}
    place = ["paper", "table", "dataset", "setting", "method", "metric"]
    assert not frame.duplicated(place).any() and frame.value.notna().all()
    accuracies = frame.query("metric == 'accuracy_percent'")["value"]
    assert accuracies.between(0, 100).all() and accuracies.max() > 90


def test_a_value_comes_with_the_spread_its_table_prints():
    waffle, fedfomo = values.of_table("waffle", "table1"), values.of_table("fedfomo", "table2")
    assert waffle["MNIST", "C", "FedAvg", "accuracy_percent"] == (98.56, 0.1)
    place = ("CIFAR10", "latent_D10_15_clients", "FedAvg", "accuracy_percent")
    assert fedfomo[place] == (10.10, 3.65)
    cifar = waffle["CIFAR10", "A", "Local", "accuracy_percent"]
    assert cifar.value == 77.1 and math.isnan(cifar.std)


def test_changing_the_loaded_frame_does_not_change_what_the_next_reader_gets():
    frame = values.load()
    frame["value"] = 0.0
    place = ("MNIST", "C", "WE", "accuracy_percent")
    assert values.of_table("waffle", "table1")[place].value == 99.0
    assert values.load()["value"].max() > 0
