"""Who holds which examples, and under which labels.

Every way to split a data set is a row of `PARTITIONS`.  Implemented: the five distributions of
WAFFLE, by the recipe of its authors' code (MartinBeaussart/Weight_Erosion_ML, loadTrainTest.py),
and Weight Erosion's splits of a table by a column (EPFLiGHT/coML-Personalized-v2, module/utils.py
and Jax_federated_learning.ipynb).
"""

import functools

from pfl_lib.data.source import Dataset
from pfl_lib.errors import choose
from pfl_lib.partitions.base import Partition, Recipe
from pfl_lib.partitions.by_column import AGES, RADII, _by_column
from pfl_lib.partitions.label_skew import (
    EVEN,
    FOUR_LABELS,
    ONE_MAIN_LABEL,
    concept_shift,
    label_skew,
)


def make(
    name: str, dataset: Dataset, clients: int | None = None, seed: int = 0, alice: int | None = None
) -> Partition:
    """Split a data set over clients (None: the recipe's own number of them) by a recipe of
    `PARTITIONS`.

    `alice`, the client whose model is read, matters to the splits of tables only: see `by_column`.
    Raises `BadInput` if the name is unknown or the recipe cannot serve this data set or number of
    clients.
    """
    recipe = PARTITIONS[choose("distribution", name, PARTITIONS)]
    clients = recipe.agents if clients is None else clients
    return recipe.split(name, dataset, clients, seed, *((alice,) if recipe.personal else ()))


PARTITIONS: dict[str, Recipe] = {
    "A": Recipe("every label evenly (IID)", 1, functools.partial(label_skew, percent=EVEN)),
    "B": Recipe("four labels each", 1, functools.partial(label_skew, percent=FOUR_LABELS)),
    "C": Recipe(
        "one main label and its neighbours",
        1,
        functools.partial(label_skew, percent=ONE_MAIN_LABEL),
    ),
    "A*": Recipe(
        "A, with labels swapped at every agent but agent 0 (the paper's Alice)",
        1,
        functools.partial(concept_shift, percent=EVEN),
        seeded=True,
    ),
    "B*": Recipe(
        "B, with labels swapped at every agent but agent 0 (the paper's Alice)",
        1,
        functools.partial(concept_shift, percent=FOUR_LABELS),
        seeded=True,
    ),
    "age_strict": _by_column("up to 20, 21 to 35, 36 and older, age unknown", AGES),
    "age_some": _by_column(
        "two random halves of those up to 35, 36 and older, age unknown", AGES, mixed=True
    ),
    "radius_strict": _by_column("mean radius up to 12, 13.5, 16, and larger", RADII),
    "radius_some": _by_column(
        "two random halves of those up to 13.5, up to 16, and larger", RADII, mixed=True
    ),
}
