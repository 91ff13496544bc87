"""Who holds which examples, and under which labels.

A recipe is a frozen dataclass, such as `Shards(per_client=2)` or `LabelSkew("C")`: `FAMILIES` holds
the package's classes.  Some have a short name too, such as "B*" and "age_strict" (`PARTITIONS`).
"""

import dataclasses

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, choose, likely, whole
from pfl_lib.partitions import by_column
from pfl_lib.partitions.base import Partition, Recipe, called
from pfl_lib.partitions.by_column import ByColumn
from pfl_lib.partitions.classes import Classes, Dominant, Neighbours, Relatives
from pfl_lib.partitions.dirichlet import Dirichlet
from pfl_lib.partitions.emd import earth_movers_distance as earth_movers_distance
from pfl_lib.partitions.label_skew import TITLES, LabelSkew, SizedSkew
from pfl_lib.partitions.latent import Latent
from pfl_lib.partitions.shards import Shards
from pfl_lib.partitions.validation import check, check_apart, check_share, hold_out_validation
from pfl_lib.randomness import seeded

FAMILIES: dict[str, type] = {
    family.name: family
    for family in (
        *(LabelSkew, ByColumn, Shards, Latent, Dirichlet),
        *(Classes, Dominant, Neighbours, Relatives, SizedSkew),
    )
}

TENSORS = ("train_x", "train_y", "test_x", "test_y")  # of a data set
MOST_CLIENTS = 100_000  # more than any data set here has examples for

PARTITIONS: dict[str, Recipe] = {letter: LabelSkew(letter) for letter in TITLES} | by_column.SHORT


def make(
    recipe: str | Recipe,
    dataset: Dataset,
    clients: int | None = None,
    seed: int = 0,
    alice: int | None = None,
    validation: float = 0.0,
) -> Partition:
    """Split a data set over clients (None: the recipe's own number of them).

    `recipe`: a short name of `PARTITIONS`, a recipe of `FAMILIES` or one of your own.  `alice`
    matters to `ByColumn` alone.  `validation`: the share of training examples that is held out.

    Raises `BadInput` for an unknown name, and where the recipe or the share does not fit the data.
    """
    recipe = find(recipe)
    clients = recipe.default_clients if clients is None else clients
    whole("clients", clients, 1, MOST_CLIENTS)
    check_share(validation)
    foreign, given = not built_in(recipe), dataset
    if foreign:  # later runs read the same tensors, which it may not change
        held = {name: getattr(dataset, name) for name in TENSORS}
        copies = {id(tensor): tensor.clone() for tensor in held.values()}
        given = dataclasses.replace(dataset, **{name: copies[id(held[name])] for name in held})
    with seeded(f"distribution {called(recipe)}: its split", foreign):
        made = recipe.split(given, clients, seed, alice)
        again = recipe.split(given, clients, seed, alice) if foreign else made
    if foreign:
        if any(getattr(given, name)._version for name in TENSORS):
            raise BadInput(
                f"distribution {called(recipe)}: its split writes into the data set, which is every"
                " run's: leave it as it is (a partition's relabel gives clients other labels)"
            )
        for one in (made, again):
            check(one, called(recipe), dataset, clients)
        if again.checksum() != made.checksum():
            why = f"distribution {called(recipe)}: its split comes out otherwise each time"
            raise BadInput(f"{why}: draw from pfl_lib.randomness.generator(seed, 'mine')")
    check_apart(made, called(recipe), made.of(dataset))
    return hold_out_validation(made, validation, seed) if validation else made


def find(recipe: str | Recipe) -> Recipe:
    """The recipe of a short name, or the recipe itself; BadInput for anything else."""
    families = [family.__name__ for family in FAMILIES.values()]
    if isinstance(recipe, str):
        if recipe not in PARTITIONS and (near := likely(recipe.replace("_", ""), families)):
            raise BadInput(
                f"distribution {recipe!r}: did you mean pfl_lib.partitions.{near}(), a recipe?"
                f" Short names are {', '.join(PARTITIONS)}"
            )
        return PARTITIONS[choose("distribution", recipe, PARTITIONS)]
    parts = ("name", "default_clients", "split")
    missing = [part for part in parts if not hasattr(recipe, part)]
    frozen = dataclasses.is_dataclass(recipe) and type(recipe).__hash__ is not None
    if isinstance(recipe, type) or not frozen or missing or not isinstance(recipe.name, str):
        raise BadInput(
            f"distribution {recipe!r}: give a short name ({', '.join(PARTITIONS)}), or an instance"
            f" of {', '.join(families)} or of a frozen dataclass of your own with"
            f" {', '.join(parts)}"
        )
    return recipe


def built_in(recipe: Recipe) -> bool:
    """Whether the recipe comes with the package, which alone says when its partitions change."""
    return type(recipe) is FAMILIES.get(recipe.name)


def short_name(recipe: Recipe) -> str | None:
    """The name that a recipe of the package goes by, such as "C"; None where it has none."""
    return getattr(recipe, "short", None) if built_in(recipe) else None
