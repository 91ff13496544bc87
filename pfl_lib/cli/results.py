"""`pfl-lib results`: what is stored, what comes with the checkout, and what only takes room."""

import json
import sys

import click

from pfl_lib.cli import options
from pfl_lib.errors import BadInput

OF_A_RUN = {"alice": 0, "loss": "cross_entropy", "measures": [], "evaluate_every": 1}
OF_A_RUN |= {"validation": 0.0, "versions": {}}
"""What `pfl_lib.run` does by itself."""


@click.group("results", no_args_is_help=False)
def command() -> None:
    """Look after stored results."""


@command.command("list")
@options.store
@click.argument("words", nargs=-1, metavar="[WORD]...")
def list_(store, words) -> None:
    """List all results, one's own and the published ones.

    With WORDs, only results whose line has all of them, such as: waffle mnist.
    """
    import pandas as pd

    from pfl_lib.results.result import percent, status

    rows = []
    if not store.root.is_dir():
        print(f"no folder {store.root} yet", file=sys.stderr)
    for result in store.results():
        config, ended = result.config, status(result)
        split = config["partition"]
        fields = [f"{k}={v}" for k, v in split.items() if k not in ("name", "version")]
        row = {
            "method": config["method"]["name"],
            "data set": config["dataset"],
            "images": config["images"] or "all",
            "distribution": f"{split['name']}({', '.join(fields)})" if fields else split["name"],
            "rounds": config["schedule"]["rounds"],
            "seed": config["seed"],
            "best": percent(result.best_accuracy) if ended == "ran" else ended,
            "key": config["key"][:10],
            "": _unusual(config),  # needs no heading, and stands to the left
        }
        rows.append(row)
    kept = [row for row in rows if options.has_all(" ".join(map(str, row.values())), words)]
    if not rows:
        print("no results yet (pfl-lib reproduce)")
    elif not kept:
        print(f"none of {len(rows)} results has {' and '.join(words)} in its line")
    else:
        frame = pd.DataFrame(kept)
        frame[""] = frame[""].str.ljust(frame[""].str.len().max())
        print(*map(str.rstrip, frame.to_string(index=False).splitlines()), sep="\n")


def _unusual(config: dict) -> str:
    """What is not as the method, the schedule and `pfl_lib.run` have it by themselves: "slope=10,
    lr=3".  Of a method, data set or partition that this version does not know, nothing is usual.
    """
    from pfl_lib.data import DATASETS
    from pfl_lib.federation.schedule import Schedule
    from pfl_lib.methods import METHODS
    from pfl_lib.partitions import FAMILIES, PARTITIONS

    method, schedule = config["method"], config["schedule"]
    known = METHODS.get(method["name"])
    fixed = {"name": method["name"], "version": method.get("version")}
    named = config["partition"]["name"]
    clients = getattr(PARTITIONS.get(named) or FAMILIES.get(named), "default_clients", None)
    of_run = OF_A_RUN | {  # of ByColumn's clients, a property, there can be no other number
        "clients": config["clients"] if isinstance(clients, property) else clients,
        "model": getattr(DATASETS.get(config["dataset"]), "model", None),
    }
    words = []
    for values, usual in (
        (method, (vars(known()) if known else {}) | fixed),
        (schedule, vars(Schedule(schedule["rounds"]))),
        ({name: config[name] for name in of_run if name in config}, of_run),
    ):
        for name, value in values.items():
            default = usual.get(name)
            if value != (list(default) if isinstance(default, tuple) else default):
                words.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    return ", ".join(words)


@command.command()
@options.store
@click.argument("name")
def show(store, name) -> None:
    """Show one result's settings and accuracies.

    NAME: its folder's name, or its key as list shows it, or how the key begins.
    """
    from pfl_lib.results.result import percent

    path, result = store.named(name)
    print(f"{path}\n{json.dumps(result.config, indent=1)}")
    if (accuracy := result.accuracy_by_round().loc[1:]).count():
        best, last = accuracy.round(12).idxmax(), accuracy.index[-1]  # as `Result.value` reads it
        told = f"best {accuracy[best]:.2%} (round {best}), last {percent(accuracy[last])}"
        print(f"accuracy: {told} (round {last})")
    if result.diverged is not None:
        print(f"diverged in round {result.diverged}{result.lost_clients}")
    if result.bytes is not None:
        up, down = result.bytes
        print(f"{up / 2**20:,.2f} MB sent by all clients, {down / 2**20:,.2f} MB received")
    weights = {} if result.weights is None else {"weights": result.weights}
    for name, matrix in {**weights, **result.matrices}.items():
        rounds = result.matrices_rounds if name in result.matrices else result.weights_rounds
        told = f"{len(rounds)} of the rounds {rounds[0]} to {rounds[-1]}"
        print(f"{name} {list(matrix.shape)}: {told}")
    model = "with" if result.model else "without"
    print(f"{result.seconds:,.1f} seconds of training; {model} its model")


@command.command()
@options.store
@click.argument("other", metavar="FOLDER", type=options.folder)
def merge(store, other) -> int:
    """Take over the results of another results FOLDER; none of one's own is replaced."""
    became = store.merge(other)
    for name, what in became.items():
        if what != "here already":
            print(f"{what}: {name}")
    taken, damaged = (list(became.values()).count(what) for what in ("taken", "damaged"))
    told = f"{taken} of {len(became)} results taken over, {damaged} damaged"
    print(f"{told}, the others are here already")
    return 1 if damaged else 0


@command.command()
@options.store
@click.option("--checkpoints", is_flag=True, help="also of unfinished runs: they begin anew")
def prune(store, checkpoints) -> None:
    """Remove damaged results and what killed runs have left behind; results stay."""
    removed = store.prune(checkpoints)
    for path, why in removed.items():
        print(f"{why}: {path.relative_to(store.root)}")
    print(f"{len(removed)} removed from {store.root}")


@command.command()
@options.store
@options.only
@options.profile("publish this profile's runs (paper)", "paper")
@options.seeds
def publish(store, only, further, profile, seeds) -> None:
    """Copy the results behind pages into reports/published.

    They become text files, a line a run, that are committed and read wherever a run is missing.  Of
    models, only small ones that a page shows go along.
    """
    if store.published is None:
        raise BadInput("PFL_IGNORE_PUBLISHED is set: unset it to publish")
    needed = [page.needed(profile, seeds) for page in options.pages(only + further)]
    wanted = {spec.key: spec for of in needed for spec in of.specs}
    shown = {spec.key for of in needed for spec in of.models}
    new = [spec for key, spec in wanted.items() if store.publish(spec, with_model=key in shown)]
    rest = "the others are published already or not stored"
    print("\n".join(spec.slug for spec in new))
    print(f"{len(new)} of {len(wanted)} runs published in {store.published}; {rest}")
    if new:
        print("'make scorecard' brings the README's scorecard up to date")
