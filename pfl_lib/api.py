"""`pfl_lib.run`: one method, once or for several seeds, in one line."""

import dataclasses
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Never, TypeVar, cast

import numpy as np

from pfl_lib import data, partitions
from pfl_lib.data import DATASETS
from pfl_lib.engine.private import DPSGD
from pfl_lib.errors import MOST_SEEDS, BadInput, choose, flag, likely, whole
from pfl_lib.experiments.own import data_checksum, initial_checksum
from pfl_lib.experiments.runner import OnRound, federation_of, run_many, run_one, tell_rounds
from pfl_lib.experiments.spec import FederationRun, RunSpec, check_storable, described, setting_of
from pfl_lib.experiments.stopping import Interrupted
from pfl_lib.experiments.training import Run, one_thread
from pfl_lib.federation.devices import cores
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Method, check_method, make_method
from pfl_lib.partitions import Recipe
from pfl_lib.progress import Bar, progress, tell
from pfl_lib.results.result import Result
from pfl_lib.results.several import Results, of_each_alice
from pfl_lib.results.store import NotStored, Store

OTHER_NAMES = {"learning_rate": "lr", "epochs": "local_epochs", "distribution": "partition"}
OTHER_NAMES |= {"callbacks": "on_round", "callback": "on_round"}
EACH = "each"  # client as Alice
HIGH_LOSS = 100.0  # guessing among ten classes has 2.3
BESIDE = ("federation", "with_model", "on_round", "results_dir", "seeds", "measures")
WHERE = ("data_dir", "device", "engine", "jobs")
Call = TypeVar("Call", bound=Callable[..., Any])


def _as_given(run: Call) -> Call:
    """Refuse what is given beside a federation, also a default; NumPy's numbers become Python's."""

    @functools.wraps(run)
    def checked(*args: Any, **given: Any) -> Any:
        defaults = run.__kwdefaults__
        words = [name for name in WHERE if isinstance(given.get(name, ...), str | None)]
        usual = [name for name in words if given[name] == defaults[name]]
        others = [n for n in given if n in defaults and n not in (*BESIDE, *usual)]
        federation = given.get("federation")
        if others and (isinstance(federation, Federation) or callable(federation)):
            told = f"{', '.join(others)}: a federation has data, model and settings of its own"
            told += "; runs of several go one after the other" * ("jobs" in others)
            raise BadInput(f"{told}: set them where it is made, or leave them out")
        plain = {n: one.item() if isinstance(one, np.generic) else one for n, one in given.items()}
        return run(*args, **plain)

    return cast("Call", checked)


@_as_given
def run(
    method: str | Method,
    *,
    dataset: str = "digits",
    partition: str | Recipe = "C",
    model: str | None = None,
    clients: int | None = None,
    images: int | None = None,
    rounds: int = 20,
    local_epochs: int = 1,
    local_batches: int | None = None,
    order: str = "shuffled",
    batch_size: int = 32,
    lr: float = 0.1,
    lr_decay: float = 1.0,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    participation: float = 1.0,
    availability: tuple[tuple[int, int, int], ...] = (),
    augment: str = "none",
    private: DPSGD | None = None,
    loss: str = "cross_entropy",
    validation: float = 0.0,
    measures: str | Sequence[str] = (),
    seed: int = 1,
    seeds: int | Sequence[int] | None = None,
    jobs: int | None = None,
    alice: int | str | None = 0,
    data_dir: str | os.PathLike | None = None,
    results_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    with_model: bool = False,
    on_round: OnRound = None,
    federation: Federation | Callable[[int], Federation] | None = None,
    **unknown: Never,  # refused in our own words; type checkers refuse them as well
) -> Result | Results:
    """Train one method and return its result; a stored result is read instead.

    With `seeds` it is trained for the seeds 1 to `seeds`, or those of a list, `jobs` at a time in
    processes of their own, and returned as `Results`.

    `method` is a name, or an instance with hyper-parameters, such as Waffle(slope=3.2).  `alice` is
    the client whose model is read (None: all clients, and accuracies are their mean; "each": a run
    for every client as Alice, for methods that make one client's model, read as one).  `model`
    defaults to what fits the data set (lenet5; tf_cnn in colour; linear for tables), `clients` to
    the partition's number.  `partition` is a short name ("A" to "B*", "age_strict", ...), a recipe
    such as Shards(per_client=2), or a frozen dataclass of your own with `name`, `default_clients`
    and `split`.  `validation` is the share of each client's training examples that is held out.
    `measures` are recorded beside each round's accuracy and loss: "validation" (on held out data),
    "trained" (after the client's own local work) and others of `experiments.measures`.  The
    schedule's settings, from `rounds` to `private`, are those of `Schedule`; `loss` is that of
    `Federation`.  `images` is how many training images are used (None: all), `data_dir` the folder
    of the data sets (default: PFL_DATA_DIR, else a cache folder, into which they are downloaded),
    `results_dir` that of results (default: PFL_RESULTS_DIR, else `results` of the checkout);
    `device` and `engine` are those of `Federation`.  Published results hold no model but a few
    small ones; `with_model` trains such a run again.  `on_round` is called with the rows of
    `Result.metrics` of each evaluated round, seed after seed, also where they are stored.

    A `federation` (see `Federation.from_arrays`) has data, model, schedule, seed and Alice of its
    own; with `seeds`, give a function that makes the federation of a seed; without `jobs`, one runs
    after the other.  A federation's results are stored where it has a name, those of a method or a
    recipe of your own where it has a `name` and a `version`; otherwise a line says that nothing is
    stored.  Raises BadInput for a value that does not fit, before anything is trained, and for a
    source or a split of your own that has changed while its version has not.  A result that cannot
    be written, as on a full disk, is returned, and a line says so.
    """
    given = locals()
    method = make_method(method) if isinstance(method, str) else check_method(method)
    for name in unknown:
        _refuse(name, method)
    flag("with_model", with_model)
    if on_round is not None and not callable(on_round):
        raise BadInput(f"on_round {on_round!r}: give a function that takes a round's rows")
    if not isinstance(measures, str | list | tuple):
        raise BadInput(f"measures {measures!r}: give a list of names, such as ['validation']")
    given["measures"] = (measures,) if isinstance(measures, str) else tuple(measures)
    if isinstance(alice, str) and alice == EACH:
        return _each_as_alice(given)
    if federation is not None:
        every = [_on(method, fed, given) for fed in _federations(given)]
        return every[0] if seeds is None else Results(tuple(every))
    if model is not None and not isinstance(model, str):
        told = f"model {type(model).__name__}: run takes a network by its name"
        cure = "for one of your own make a pfl_lib.Federation and give federation=..."
        raise BadInput(f"{told}; {cure}")
    recipe = partitions.find(partition)
    of_schedule = {field.name for field in dataclasses.fields(Schedule)} & given.keys()
    schedule = Schedule(**{name: given[name] for name in of_schedule})
    source = DATASETS[choose("dataset", dataset, DATASETS)]
    network = source.model if model is None else model
    count = recipe.default_clients if clients is None else clients
    kept = {name: given[name] for name in ("images", "alice", "loss", "validation", "measures")}
    spec = RunSpec(method, schedule, dataset, recipe, network, count, **kept)
    specs = [dataclasses.replace(spec, seed=each) for each in _seeds(seed, seeds, jobs)]
    for one in specs:
        _ = one.source  # is kept: a run may change a list that its method names
    where, storable = (data_dir, device, engine), _storable(method, recipe)
    if jobs is not None:
        if not storable:
            raise BadInput(f"jobs {jobs}: what is not stored runs in this process: leave it out")
        # What fails here fails again below, with its own sentence; what has no place is trained
        # there once more, and returned.
        with suppress(NotStored):
            done = run_many(specs, Store(results_dir), jobs, *where, with_model=with_model)
            for why in {of.message for of in done if getattr(of, "unsent", False)}:
                tell(f"{why}; the runs go one after the other")
    if storable:
        every = [_stored(spec, given) for spec in specs]
    else:
        with one_thread():
            made = ((one, federation_of(one, *where, cores())) for one in specs)
            every = [_unstored(method, fed, given, one) for one, fed in made]
    return every[0] if seeds is None else Results(tuple(every))


def _each_as_alice(given: Mapping[str, Any]) -> Result | Results:
    """Every client as Alice once: their runs as one, in which all clients' models are read."""
    if given["private"] is not None:
        told = "every client would train in all of these runs, with the same noise, which cancels"
        raise BadInput(f"alice 'each' beside private: {told}: give one of the clients by number")
    if given["with_model"]:
        told = "each of these runs has a model of its own"
        raise BadInput(f"alice 'each' beside with_model: {told}: give one of the clients by number")
    recipe = partitions.find(given["partition"])
    count = recipe.default_clients if given["clients"] is None else given["clients"]
    data_set = data.load(given["dataset"], given["data_dir"], given["images"])
    whole("clients", count, 1)
    splits = (partitions.make(recipe, data_set, count, given["seed"], i) for i in range(count))
    if len({split.checksum() for split in splits}) > 1:
        told = f"alice 'each': partition {partitions.called(recipe)} is made for one Alice"
        raise BadInput(f"{told}: give each of them by number")
    settings = {name: value for name, value in given.items() if name != "unknown"}
    every = [run(**settings | {"alice": client}) for client in range(count)]
    if given["seeds"] is None:
        return of_each_alice(every)
    return Results(tuple(map(of_each_alice, zip(*every, strict=True))))


def _refuse(setting: str, method: Method) -> Never:
    """BadInput for a setting that `run` does not have, with the one that was likely meant."""
    allowed = list(run.__wrapped__.__kwdefaults__)
    own = dataclasses.fields(method) if dataclasses.is_dataclass(method) else ()
    if setting in [field.name for field in own]:
        what_to_do = f"give {type(method).__name__}({setting}=...) as the method"
    elif near := OTHER_NAMES.get(setting) or likely(setting, allowed, alike=0.6):
        what_to_do = f"did you mean {near}?"
    else:
        what_to_do = "leave it out"
    raise BadInput(f"setting {setting!r}: {what_to_do} (settings are {', '.join(allowed)})")


def _federations(given: dict[str, Any]) -> list[Federation]:
    """The federations to run on; BadInput for what is none, and for one of another seed."""
    federation, seeds = given["federation"], given["seeds"]
    made = [federation]
    if seeds is not None:
        try:
            inspect.signature(federation).bind(1)
        except ValueError:  # a compiled function, which does not tell its arguments
            pass
        except TypeError:  # no function, or one that cannot take a seed alone
            why = "give a function that makes the federation of a seed"
            raise BadInput(f"federation {federation!r} beside seeds: {why}") from None
        numbers = _seeds(1, seeds, None)
        made = [federation(seed) for seed in numbers]
    for fed in made:
        if not isinstance(fed, Federation):
            beside = ", or seeds=3 beside the function" if callable(fed) else ""
            told = f"federation {fed!r}: give a pfl_lib.Federation"
            raise BadInput(f"{told}, as Federation.from_arrays makes one{beside}")
    if seeds is not None and (found := [fed.seed for fed in made]) != numbers:
        told = f"the federations of seeds {numbers} have seeds {found}"
        raise BadInput(f"{told}: give seed=seed to the Federation that the function makes")
    return made


def _seeds(seed: int, seeds: int | Sequence[int] | None, jobs: int | None) -> list[int]:
    """The seeds to run; BadInput where `seed`, `seeds` and `jobs` do not fit together."""
    if jobs is not None:
        whole("jobs", jobs, 1)
    if seeds is None:
        if jobs is not None:
            raise BadInput(f"jobs {jobs}: one run takes one process; give seeds=3 as well")
        return [seed]
    if seed != 1:
        raise BadInput(f"seed {seed!r} beside seeds {seeds!r}: give one of them")
    several = isinstance(seeds, list | tuple | range | np.ndarray)
    if several and getattr(seeds, "ndim", 1) == 1 and len(seeds):
        numbers = [one.item() if isinstance(one, np.generic) else one for one in seeds]
        for each in numbers:
            whole("a seed", each)
        if len({*numbers}) < len(numbers):
            raise BadInput(f"seeds {numbers}: give each of them once")
        return numbers
    whole("seeds", seeds, 1, MOST_SEEDS)
    return list(range(1, seeds + 1))


def _on(method: Method, fed: Federation, given: Mapping[str, Any]) -> Result:
    """One method on one federation: stored where it has a name."""
    nameless = "a federation without a name is not stored"
    if fed.name is None and given["results_dir"] not in (None, ""):
        raise BadInput(f"results_dir: {nameless}: give it name='mine'")
    if fed.name is None:
        tell(f"{nameless}: name='mine' in it keeps its runs")
    if fed.name is None or not _storable(method):
        return _unstored(method, fed, given)
    return _stored(FederationRun(method, fed, given["measures"]), given)


def _storable(method: Method, recipe: Recipe | None = None) -> bool:
    """Whether both can be stored; otherwise prints why."""
    try:
        check_storable(method, recipe)
    except BadInput as error:
        print(error, file=sys.stderr)
        return False
    return True


def _stored(spec: RunSpec | FederationRun, given: Mapping[str, Any]) -> Result:
    """The spec's result, read or trained; where it cannot be stored a line says so."""
    names = ("data_dir", "device", "engine", "with_model", "on_round")
    asked = {name: given[name] for name in names}
    try:
        with _over_rounds(spec.schedule.rounds, "; the same call goes on from there") as bar:
            store = Store(given["results_dir"])
            result = run_one(spec, store, threads=cores(), progress=bar.reach, **asked)
            return _looked_at(result)
    except NotStored as error:  # what was trained is not lost for want of a place
        print(error, file=sys.stderr)
        return error.result


@contextmanager
def _over_rounds(rounds: int, kept: str) -> Iterator[Bar]:
    """Progress over rounds; Ctrl-C becomes a line that says where it stopped, and what is kept."""
    bar = Bar()
    try:
        with progress(rounds, "training", "round") as bar:
            yield bar
    except KeyboardInterrupt:
        raise Interrupted(f"stopped after round {bar.steps} of {rounds}{kept}") from None


def _looked_at(result: Result) -> Result:
    """The result; where its last loss is far above guessing a line says so."""
    loss = result.value("loss", "last")
    if result.diverged is None and loss > HIGH_LOSS:
        rate = result.config["schedule"]["lr"]
        tell(f"the loss is {loss:,.0f} in the last round: a rate below {rate:g} may learn more")
    return result


def _unstored(
    method: Method, fed: Federation, given: Mapping[str, Any], spec: RunSpec | None = None
) -> Result:
    """One method on one federation, of the package's data where there is a `spec`."""
    cure = "give method and federation a name and a version, and runs are stored and go on"
    kept = f" (seed {fed.seed}); nothing of it is kept: {cure}"
    with one_thread(), _over_rounds(fed.schedule.rounds, kept) as bar:
        run, told = Run(method, fed, given["measures"]), 0
        for r in run.rounds():
            bar.reach(r)
            tell_rounds(run.metrics[told:], given["on_round"])
            told = len(run.metrics)
    config = {"method": {"name": method.name}, "seed": fed.seed, "alice": fed.alice}
    config["initial"] = initial_checksum(fed)
    config |= {"data": data_checksum(fed), "schedule": described(fed.schedule), "loss": fed.loss}
    config["names"] = list(fed.clients.names)
    config |= setting_of(fed) if spec is None else {"model": spec.model, **spec.setting()}
    return _looked_at(run.result(config))
