"""`pfl-lib results`: what is stored, what comes with the checkout, and what only takes room."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from pfl_lib.cli import arguments
from pfl_lib.cli.words import has_all


def add_parser(subparsers) -> None:
    """Add `results` and its actions to the command line."""
    parser = subparsers.add_parser(
        "results",
        help="list, show, merge, publish and tidy stored results",
        description="Look after stored results.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")

    def action(name: str, run, help: str, description: str = "") -> argparse.ArgumentParser:
        added = actions.add_parser(
            name, help=help, description=description or f"{help[0].upper()}{help[1:]}."
        )
        arguments.add_results_dir(added)
        added.set_defaults(run=run)
        return added

    action("list", _list, "list all results, one's own and the published ones").add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="only results whose line has all these words, such as waffle mnist",
    )
    action("show", _show, "show one result's settings and accuracies").add_argument(
        "name",
        metavar="NAME",
        help="its folder's name, or its key as list shows it, or how the key begins",
    )
    action(
        "merge",
        _merge,
        "take over the results of another results folder; none of one's own is replaced",
    ).add_argument("other", metavar="FOLDER", type=arguments.folder, help="another results folder")
    action(
        "prune",
        _prune,
        "remove damaged results and what killed runs have left behind; results stay",
    ).add_argument(
        "--checkpoints",
        action="store_true",
        help="also of runs that are not finished: they begin anew",
    )
    publish = action(
        "publish",
        _publish,
        "copy results into reports/published",
        "Copy the results behind pages into reports/published: text files, a line a run, that are"
        " committed and read wherever a run is missing.  Of models, only small ones that a page"
        " shows go along.",
    )
    arguments.add_only(publish)
    publish.add_argument(
        "--profile",
        choices=("quick", "small", "paper"),
        default="paper",
        help="publish this profile's runs (paper)",
    )
    publish.add_argument(
        "--seeds",
        type=arguments.at_least_one,
        metavar="N",
        help="seeds 1 to N, not the profile's own",
    )


def _store(args: argparse.Namespace):
    from pfl_lib.results.store import Store

    return Store(args.results_dir)


def _list(args: argparse.Namespace) -> int:
    store = _store(args)
    if not store.root.is_dir():
        print(f"no folder {store.root} yet", file=sys.stderr)
    print(_table(store.results(), args.words))
    return 0


def _show(args: argparse.Namespace) -> int:
    path, result = _store(args).named(args.name)
    print(f"{path}\n{json.dumps(result.config, indent=1)}")
    accuracy = result.accuracy_by_round()
    if len(accuracy):
        print(
            f"accuracy: best {accuracy.max():.2%} (round {accuracy.idxmax()}), last"
            f" {accuracy.iloc[-1]:.2%} (round {accuracy.index[-1]})"
        )
    if result.diverged is not None:
        print(f"diverged in round {result.diverged}{result.lost_clients}")
    if result.bytes is not None:
        up, down = result.bytes
        print(f"{up / 2**20:,.2f} MB sent by all clients, {down / 2**20:,.2f} MB received")
    if result.weights is not None:
        print(f"weights {_shape(result.weights, result.weights_rounds)}")
    for name, matrix in result.matrices.items():
        print(f"{name} {_shape(matrix, result.matrices_rounds)}")
    print(
        f"{result.seconds:,.1f} seconds of training; {'with' if result.model else 'without'} its"
        " model"
    )
    return 0


def _shape(matrix, rounds: Sequence[int]) -> str:
    """ "[50, 10, 10]: 50 of the rounds 1 to 200"."""
    return f"{list(matrix.shape)}: {len(rounds)} of the rounds {rounds[0]} to {rounds[-1]}"


def _merge(args: argparse.Namespace) -> int:
    became = _store(args).merge(args.other)
    for name, what in became.items():
        if what != "here already":
            print(f"{what}: {name}")
    taken, damaged = (list(became.values()).count(what) for what in ("taken", "damaged"))
    print(
        f"{taken} of {len(became)} results taken over, {damaged} damaged, the others are here"
        " already"
    )
    return 1 if damaged else 0


def _prune(args: argparse.Namespace) -> int:
    store = _store(args)
    removed = store.prune(args.checkpoints)
    for path, why in removed.items():
        print(f"{why}: {path.relative_to(store.root)}")
    print(f"{len(removed)} removed from {store.root}")
    return 0


def _publish(args: argparse.Namespace) -> int:
    from pfl_lib.errors import BadInput
    from pfl_lib.papers import EXHIBITS, exhibit

    store = _store(args)
    if store.published is None:
        raise BadInput("PFL_IGNORE_PUBLISHED is set: unset it to publish")
    pages = [exhibit(id) for id in args.only] if args.only else list(EXHIBITS.values())
    wanted = {
        spec.key: spec
        for page in pages
        for spec in page.runs(page.profile(args.profile, args.seeds))
    }
    shown = {
        spec.key for page in pages for spec in page.models(page.profile(args.profile, args.seeds))
    }
    published = [
        spec.slug for key, spec in wanted.items() if store.publish(spec, with_model=key in shown)
    ]
    print("\n".join(published))
    print(
        f"{len(published)} of {len(wanted)} runs published in {store.published}; the others are"
        " published already or not stored"
    )
    if published:
        print("'make scorecard' brings the README's scorecard up to date")
    return 0


def _table(results: Iterable, words: Sequence[str] = ()) -> str:
    import pandas as pd

    from pfl_lib.results.summary import at_round

    rows = [
        {
            "method": result.config["method"]["name"],
            "data set": result.config["dataset"],
            "images": result.config["images"] or "all",
            "distribution": _distribution(result.config["partition"]),
            "rounds": result.config["schedule"]["rounds"],
            "seed": result.config["seed"],
            "best": (
                f"{result.best_accuracy:.2%}"
                if result.diverged is None
                else at_round(result.diverged)
            ),
            "key": result.config["key"][:10],
            "settings": _settings(result.config),
        }
        for result in results
    ]
    if not rows:
        return "no results yet (pfl-lib reproduce)"
    # What is not as usual needs no heading, and stands to the left.
    frame = pd.DataFrame(rows).rename(columns={"settings": ""})
    frame[""] = frame[""].str.ljust(frame[""].str.len().max())
    head, *lines = [line.rstrip() for line in frame.to_string(index=False).splitlines()]
    kept = [line for line in lines if has_all(line, words)]
    if not kept:
        return f"none of {len(lines)} results has {' and '.join(words)} in its line"
    return "\n".join([head, *kept])


def _settings(config: dict) -> str:
    """What is not as the method, the schedule and `pfl_lib.run` have it by themselves: "slope=10,
    lr=3".
    """
    from pfl_lib.data import DATASETS
    from pfl_lib.federation.schedule import Schedule
    from pfl_lib.methods import METHODS

    # A newer version of the package may know methods, data sets and partitions that this one does
    # not: of those nothing is left out as usual.
    method, schedule = dict(config["method"]), dict(config["schedule"])
    usual = METHODS.get(method.pop("name"))
    of_method = {} if usual is None else vars(usual())
    of_run = {
        "alice": 0,
        "loss": "cross_entropy",
        "measures": [],
        "evaluate_every": 1,
        "validation": 0.0,
        "versions": {},
        "clients": _usual_clients(config["partition"]),
        "model": getattr(DATASETS.get(config["dataset"]), "model", None),
    }
    beside = (
        (method, of_method | {"version": method.get("version")}),
        (schedule, vars(Schedule(rounds=schedule["rounds"]))),
        ({name: config[name] for name in of_run if name in config}, of_run),
    )
    words = [
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for values, defaults in beside
        for name, value in values.items()
        if value != defaults.get(name) and not (value == [] and defaults.get(name) == ())
    ]
    return ", ".join(words)


def _distribution(config: dict) -> str:
    """A partition as it is stored, in words: "C", or "shards(per_client=2)"."""
    fields = [f"{k}={v}" for k, v in config.items() if k not in ("name", "version")]
    return f"{config['name']}({', '.join(fields)})" if fields else str(config["name"])


def _usual_clients(config: dict) -> int | None:
    """The number of clients that a stored partition has by itself; None where it is not known
    here.
    """
    from pfl_lib.partitions import from_settings

    recipe = from_settings(config)
    return None if recipe is None else recipe.default_clients
