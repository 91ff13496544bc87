"""What WAFFLE prints for an experiment to start from (Tables 2 and 3), beside what is used here."""

from pfl_lib.papers import values
from pfl_lib.papers.verdicts import Printed
from pfl_lib.papers.waffle import FULL, PAPER, TABLE1, cifar10
from pfl_lib.partitions.label_skew import ONE_MAIN_LABEL

Place = tuple[str, str, str, str, str]
"""(table, data set, setting, method, metric), as in `paper_values.csv`."""
FIELDS = {"p_d": "p_d", "dOmega": "slope"}
NAMES = {"table2": "waffle-table2", "table3": "waffle-table3"}


def used() -> dict[Place, float]:
    """Each printed setting's place to the number that the paper profile's runs have there."""
    found = {place: _share(place) for place in _places("table2")}
    tables = {"MNIST": (TABLE1, FULL), "CIFAR10": (cifar10.TABLE, cifar10.FULL)}
    for place in _places("table3"):
        _, dataset, distribution, method, metric = place
        table, profile = tables[dataset]
        run = table.spec(distribution, method, profile, profile.seeds[0])
        found[place] = float(getattr(run.method, FIELDS[metric]))
    return found


def page(place: Place, as_printed: bool) -> str:
    """The id of the page that shows a setting; for one that is replaced, that which says why."""
    return "waffle-cifar10" if place[1] == "CIFAR10" and not as_printed else NAMES[place[0]]


def _places(table: str) -> dict[Place, Printed]:
    printed = values.of_table(PAPER, table)
    return {(table, *place): value for place, value in printed.items()}


def _share(place: Place) -> float:
    """The share of a label that the recipe of distribution C gives a client."""
    *_, client, label = place
    shift = int(client.removeprefix("agent")) + int(
        label.removesuffix("_share").removeprefix("label")
    )
    return ONE_MAIN_LABEL[shift % len(ONE_MAIN_LABEL)] / 100
