"""Full descriptions of runs: method x data x partition x model x schedule x seed, or own data."""

import contextlib
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pfl_lib import data, engine, models, partitions
from pfl_lib.engine.layout import parametrized
from pfl_lib.errors import BadInput, check_alice, choose, whole
from pfl_lib.experiments import measures, own
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import METHODS, Method
from pfl_lib.methods.poisoned import Poisoned
from pfl_lib.partitions import Recipe
from pfl_lib.results.files import key_of

PRIVATE_COST = 2  # a step by DP-SGD in plain ones, on FedFomo's network; 3 on LeNet-5
MOST_BYTES = 60  # of each part of a long name


def _key(run: "RunSpec | FederationRun") -> str:
    """SHA-256 of the canonical JSON of `config()`."""
    return key_of(run.config())


def _slug(run: "RunSpec | FederationRun") -> str:
    """A readable folder name that is unique: method, data, partition, seed, key's beginning."""
    config = run.config()
    names = (config["method"]["name"], config["dataset"], config["partition"]["name"])
    told = [re.sub(r"[^\w.+-]+", "_", name.replace("*", "star")).strip("._") for name in names]
    if len("-".join(told).encode()) > 3 * MOST_BYTES:  # a file's name has at most 255
        told = [name.encode()[:MOST_BYTES].decode(errors="ignore") for name in told]
    return f"{'-'.join(told)}-seed{config['seed']}-{run.key[:10]}"


@dataclass(frozen=True)
class RunSpec:
    """A run's full description.

    `images` keeps the first so many training images; `alice` is the client whose model is read
    (None: all).  `measures` names what is recorded beside accuracy and loss (`measures.MEASURES`),
    and "start" that the initial model is evaluated too, as round 0. `evaluate_every`: every so many
    rounds models are evaluated, and after the last one in any case.  `partition`: a short name, or
    a recipe of `partitions.FAMILIES`; a recipe that has a short name is kept as that name.
    `validation`: the share of each client's training examples that is held out to validate on.
    """

    method: Method
    schedule: Schedule
    dataset: str = "mnist"
    partition: str | Recipe = "C"
    model: str = "lenet5"
    clients: int = 10
    images: int | None = None
    seed: int = 1
    alice: int | None = 0
    loss: str = "cross_entropy"
    measures: tuple[str, ...] = ()
    evaluate_every: int = 1
    validation: float = 0.0

    key, slug = cached_property(_key), cached_property(_slug)

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, Schedule):
            raise BadInput(f"schedule {self.schedule!r}: give a Schedule, such as Schedule(20)")
        choose("dataset", self.dataset, data.DATASETS)
        recipe = partitions.find(self.partition)
        # One description of one run: "C" and LabelSkew("C") are equal and give the same key.
        object.__setattr__(self, "partition", partitions.short_name(recipe) or recipe)
        choose("model", self.model, models.MODELS)
        choose("loss", self.loss, engine.LOSSES)
        if not isinstance(self.measures, tuple):
            raise BadInput(f"measures {self.measures!r}: give a tuple, such as ('validation',)")
        measures.check_names(self.measures)
        whole("seed", self.seed)
        whole("clients", self.clients, 1, partitions.MOST_CLIENTS)
        whole("evaluate_every", self.evaluate_every, 1)
        if self.images is not None:
            whole("images", self.images, 1)
        object.__setattr__(self, "alice", check_alice(self.alice, self.clients))
        partitions.check_share(self.validation)

    @property
    def recipe(self) -> Recipe:
        """How the data set is split over the clients."""
        return partitions.find(self.partition)

    def setting(self) -> dict[str, Any]:
        """The data that clients hold, as `config` has it; of a recipe not to be stored its name."""
        recipe, partition = self.recipe, {"name": self.recipe.name}
        if isinstance(self.partition, str):
            partition = {"name": self.partition, "version": recipe.version}
        else:
            with contextlib.suppress(BadInput):
                own.check("distribution", recipe, ())
                partition = described(recipe)
        told = {"dataset": self.dataset, "images": self.images, "partition": partition}
        told["clients"] = self.clients
        return told | ({"validation": self.validation} if self.validation else {})

    def config(self) -> dict[str, Any]:
        """Everything the numbers depend on, as JSON has it.

        A method or a recipe that is not the package's own is named under "own", so that no key of
        the package's is ever one of these.  Raises BadInput for one that cannot be stored.
        """
        recipe, dataset = self.recipe, data.DATASETS[self.dataset]
        foreign, setting = check_storable(self.method, recipe), self.setting()
        versions = {
            f"dataset {self.dataset}": dataset.version,
            f"model {self.model}": models.VERSIONS.get(self.model, 1),
            **{f"measure {name}": measures.VERSIONS.get(name, 1) for name in self.measures},
        }
        if isinstance(recipe, partitions.Latent):
            versions |= recipe.versions(self.dataset)
        setting |= {"fingerprint": dataset.fingerprint, "model": self.model}
        every = None if self.evaluate_every == 1 else self.evaluate_every
        statistics = self.model in models.WITH_STATISTICS
        return _config(self, setting, versions, statistics, evaluate_every=every, own=foreign)

    @cached_property
    def source(self) -> str:
        """`own.source_of` the method and the recipe where they are a user's own, else "".  It is no
        part of the key: it tells when they have changed and their version has not.
        """
        kinds = [] if built_in(self.method) else [type(inner(self.method))]
        kinds += [] if partitions.built_in(self.recipe) else [type(self.recipe)]
        return own.source_of(*kinds)

    def examples(self) -> int:
        """About how many examples' gradients the run takes: a measure of its length."""
        images = self.images or data.DATASETS[self.dataset].examples
        of_each = getattr(self.recipe, "training_examples", None)
        images = (images if of_each is None else of_each * self.clients) * (1 - self.validation)
        schedule = self.schedule
        passes = float(schedule.local_epochs)
        if schedule.local_batches is not None:
            passes = schedule.local_batches * min(1.0, self.clients * schedule.batch_size / images)
        if hasattr(self.method, "cost"):
            passes = self.method.cost(passes, 1.0 if self.alice is None else 1 / self.clients)
        if schedule.private is not None:
            passes *= PRIVATE_COST
        return round(images * passes * schedule.rounds * schedule.participation)


@dataclass(frozen=True, eq=False)
class FederationRun:
    """A method on a federation that has a name; `Store` reads and writes it as it does a `RunSpec`.

    The key follows from the federation's name and version, from all of its data and the model every
    client starts from, with its settings, from schedule, seed and Alice, and from the method.
    Raises BadInput for a method that does not say what its results are to be stored under.
    """

    method: Method
    federation: Federation
    measures: tuple[str, ...] = ()

    key, slug = cached_property(_key), cached_property(_slug)

    def __post_init__(self) -> None:
        if self.federation.name is None:
            raise BadInput("a federation without a name is not stored: give it name='patients'")
        check_storable(self.method)

    @property
    def schedule(self) -> Schedule:
        return self.federation.schedule

    @cached_property
    def _config(self) -> dict[str, Any]:
        fed = self.federation
        setting = setting_of(fed) | {
            # What a data set's fingerprint is to the package's own.
            "fingerprint": own.data_checksum(fed, *fed.initial().values(), *fed.constants),
            "images": None,
            "dtype": str(fed.dtype).removeprefix("torch."),
        }
        unusual = {"own": check_storable(self.method) | {"data": {}}, "behaviour": fed.behaviour}
        versions = {"parametrized layers": 2 if parametrized(fed.module) else 1}
        return _config(self, setting, versions, fed.layout.S > 0, **unusual)

    def config(self) -> dict[str, Any]:
        """Everything the numbers depend on, as JSON has it."""
        return dict(self._config)

    @cached_property
    def source(self) -> str:
        """`own.source_of` the classes of method and model that are a user's own, "" for none."""
        parts = dict.fromkeys(type(part) for part in self.federation.module.modules())
        kinds = [] if built_in(self.method) else [type(inner(self.method))]
        kinds += [k for k in parts if k.__module__.split(".")[0] not in ("torch", "pfl_lib")]
        return own.source_of(*kinds)


def _config(
    run: RunSpec | FederationRun, setting: dict, versions: dict, statistics: bool, **unusual: Any
) -> dict[str, Any]:
    """A run's configuration (`statistics`: the network has running ones); what is `unusual` only
    where it says something: a run for which nothing has changed keeps the key it always had.
    """
    of = getattr(run, "federation", run)
    if hasattr(run.method, "versions"):
        versions |= run.method.versions(of.schedule, statistics)
    unusual |= {"versions": {name: version for name, version in versions.items() if version != 1}}
    unusual |= {"measures": list(run.measures)}
    return {
        **setting,
        "method": described(run.method),
        "schedule": described(of.schedule),
        "seed": of.seed,
        "alice": of.alice,
        "loss": of.loss,
        "engine": engine.VERSION,
        **{name: value for name, value in unusual.items() if value},
    }


def setting_of(fed: Federation) -> dict[str, Any]:
    """Network and, of a federation with a name, data, as a result's configuration has them."""
    network = {"model": " ".join(repr(fed.module).split())}
    if fed.name is None:
        return network
    partition = {"name": "own data", "version": fed.version}
    return network | {"dataset": fed.name, "partition": partition, "clients": len(fed)}


def built_in(method: Method) -> bool:
    """Whether a method comes with the package, as does what it poisons."""
    method = inner(method)
    return type(method) is METHODS.get(getattr(method, "name", None))


def inner(method: Method) -> Method:
    """The method that is poisoned, or the method itself."""
    return inner(method.method) if type(method) is Poisoned else method


def check_storable(method: Method, recipe: Recipe | None = None) -> dict[str, dict[str, int]]:
    """Which of the two are a user's own, "method" and "partition", each with the versions of the
    package's classes that it is made of; BadInput for one that cannot be stored (`own.check`).
    """
    foreign = {}
    if not built_in(method):
        own.check("method", inner(method), METHODS)
        foreign["method"] = _parents(inner(method), METHODS)
    if recipe is not None and not partitions.built_in(recipe):
        own.check("distribution", recipe, {*partitions.FAMILIES, *partitions.PARTITIONS})
        foreign["partition"] = _parents(recipe, partitions.FAMILIES)
    return foreign


def _parents(theirs: Any, known: Mapping[str, type]) -> dict[str, int]:
    kinds = set(known.values()).intersection(type(theirs).__mro__)
    return {kind.name: kind.version for kind in kinds}


def described(of: Any) -> dict[str, Any]:
    """A method, a recipe or a schedule as JSON has it: its name and version, where it has them, and
    the fields, without those of its `later` ones that are as they were before they were added: at
    their default, or where `later` is a mapping at the value that it gives.  A run that could be
    described then keeps its key.

    Equal values give equal keys: where a number may be a fraction, 3 becomes 3.0, and -0.0 0.0.
    """
    values, later = dataclasses.asdict(of), getattr(of, "later", ())
    told = {"name": of.name, "version": of.version} if hasattr(of, "version") else {}
    # Of the class that names them `later`: a subclass may have another, which is its setting.
    kinds = [kind for kind in type(of).__mro__ if dataclasses.is_dataclass(kind)]
    kind = next((kind for kind in kinds if "later" in vars(kind)), type(of))
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    for field in dataclasses.fields(of):
        name, value = field.name, values[field.name]
        before = later[name] if isinstance(later, Mapping) and name in later else defaults.get(name)
        if name in later and getattr(of, name) == before:
            continue
        is_fraction = field.type in (float, float | None) and isinstance(value, int | float)
        told[name] = value + 0.0 if is_fraction else value
    return told | ({"method": described(of.method)} if type(of) is Poisoned else {})


@dataclass(frozen=True)
class RunFailure:
    """A spec that could not be run, and why, in one line; `unsent`: no other process can run it."""

    spec: RunSpec
    message: str
    unsent: bool = False


@dataclass(frozen=True)
class RunLeft:
    """A spec for which there was no time: it was stopped, with a checkpoint, or not started."""

    spec: RunSpec
    started: bool
