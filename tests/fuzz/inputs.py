"""Calls with values of all kinds: each ends in a result or in one line of `BadInput`, soon.

By hand, with the number of calls and a seed:  python tests/fuzz/inputs.py 3200 1

What they got goes to reports/proof/inputs.json: counts by function, and every call that ended
otherwise.  A call that computes for more than `SECONDS`, or waits for `WAIT`, hangs.
"""

import collections
import contextlib
import datetime
import io
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import MISSING, fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

import pfl_lib
from pfl_lib import BadInput, Federation, Schedule, partitions
from pfl_lib.data import load
from pfl_lib.federation.from_csv import from_csv
from pfl_lib.methods import METHODS
from pfl_lib.methods.poisoned import Poisoned

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "reports" / "proof" / "inputs.json"
SECONDS, WAIT, MEMORY = 20, 180, 12 * 2**30

ODD = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 10**9, 10**30, -(10**30), 0.0, -0.0, 0.5, 1.0, -0.5),
    *(1e308, -1e308, 1e-308, math.inf, -math.inf, math.nan, 1j, Fraction(1, 2), Decimal("0.5")),
    *("", " ", "a", "0", "\0", "é\n", "x" * 300, b"x", Path("x"), [], (), {}, set(), [1], (1,)),
    *((0, 1, 2), (2, 1), [[1]], ["a", "a"], ("a",), (1, "2"), [None], {"a": 1}, {1: "a"}, range(3)),
    *(object(), int, len, slice(2), np.int64(3), np.float64(0.5), np.bool_(True), np.arange(2)),
    *(np.array("A"), torch.tensor(1), torch.zeros(2), pd.Series([1]), pd.DataFrame({"a": [1]})),
]
USUAL = {  # values that fit, for runs that get as far as training
    "dataset": ("digits", "breast_cancer"),
    "partition": ("A", "B", "C", "A*", "B*", "radius_strict", partitions.Shards(2)),
    "model": ("linear", "lenet5", "pfedla_cnn", "nothing"),
    "clients": (1, 2, 5),
    "images": (50, 200),
    "rounds": (1, 2),
    "local_epochs": (1, 2),
    "local_batches": (1, 3),
    "order": ("fixed", "shuffled", "random"),
    "batch_size": (1, 16, 10_000),
    "lr": (0.1, 1, 1e10),
    "augment": ("none", "crop_flip"),
    "loss": ("cross_entropy", "half_cross_entropy"),
    "validation": (0.2, 0.99),
    "seeds": (2, [3, 1]),
    "alice": (0, 3, "each"),
    "engine": ("loop", "vmap", "auto"),
    "device": ("cpu", "cuda", "auto"),
    "availability": (((1, 1, 1),), ((9, 1, 2),)),
    "threads": (1, 2),
    "dtype": (torch.float32, torch.float64, torch.int64, torch.float16),
    "label": ("y", "x", "g"),
    "split_by": ("g", "x"),
    "bins": ((1,), (1, 2), [2, 1]),
    "inputs": (["x"], ["x", "w"]),
    "metric": ("accuracy", "loss"),
    "protocol": ("best", "last"),
    "weighting": ("size", "uniform"),
    "attack": ("labels", "update"),
    "scale": (-1, 10.0, -1e10),
    "liars": ((1,), (1, 2), (0,), (9,), (True,), [1]),
}
Call = Callable[[], object]


class Draw(random.Random):
    """The values of one call; `told` is what it was given."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.told: dict[str, object] = {}

    def value(self, name: str) -> object:
        usual = USUAL.get(name, ())
        self.told[name] = self.choice(usual if usual and self.random() < 0.6 else ODD)
        return self.told[name]

    def some(self, names: list[str], most: int = 2) -> dict[str, object]:
        if self.random() < 0.3:  # as people who read the documentation call
            names = [name for name in names if name in USUAL] or names
        count = min(len(names), self.randint(1, most))
        return {name: self.value(name) for name in self.sample(names, count)}

    def array(self, labels: bool = False) -> object:
        """Inputs [4, 3], or labels [4], more or less."""
        good = torch.tensor([0, 1, 0, 1]) if labels else torch.randn(4, 3)
        made = (
            *(lambda: good.numpy(), lambda: good.tolist(), lambda: good.double(), lambda: good[:2]),
            *(lambda: good[None], lambda: good + math.nan, lambda: good * 1e300, lambda: -good),
            *(lambda: good.to_sparse(), lambda: good.to("meta"), lambda: good.bool()),
            *(lambda: pd.DataFrame(good.numpy()), lambda: np.ma.masked_array(good.numpy())),
            *(lambda: good.numpy().astype(object), lambda: good.numpy().astype(str)),
            *(lambda: good.to(torch.complex64), lambda: good.double().requires_grad_()),
            lambda: self.choice(ODD),
        )
        if self.random() < 0.85:
            return good
        place = self.randrange(len(made))
        self.told["labels" if labels else "inputs"] = place
        return made[place]()


def tiny(**settings) -> Federation:
    """Three clients of four examples, in float64."""
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    given = {"schedule": Schedule(rounds=1, batch_size=2), "device": "cpu", "alice": 0}
    given |= {"dtype": torch.float64, "validation": [(x, y)] * 3, **settings}
    return Federation.from_arrays([(x, y)] * 3, [(x, y)] * 3, lambda: nn.Linear(3, 2), **given)


def of_run(draw: Draw) -> Call:
    names = [
        name for name in pfl_lib.run.__wrapped__.__kwdefaults__ if name not in ("jobs", "data_dir")
    ]
    method = draw.choice([*list(METHODS) * 9, *ODD])
    settings = {"model": "linear", "clients": 4, "rounds": 1} | draw.some(names)
    draw.told["method"] = method
    return lambda: pfl_lib.run(method, **settings)


def of_schedule(draw: Draw) -> Call:
    settings = {"rounds": 1} | draw.some([field.name for field in fields(Schedule)])
    return lambda: Schedule(**settings)


def of_method(draw: Draw) -> Call:
    kind = draw.choice(list(METHODS.values()))
    names = [field.name for field in fields(kind)]
    settings = draw.some(names) if names else {}
    draw.told["method"] = kind.__name__
    return lambda: pfl_lib.run(kind(**settings), federation=tiny())


def of_poisoned(draw: Draw) -> Call:
    method = METHODS[draw.choice(list(METHODS))]
    settings = {"liars": (1,)} | draw.some(["liars", "attack", "scale"])
    settings["clients"] = settings.pop("liars")
    draw.told["method"] = method.__name__
    return lambda: pfl_lib.run(Poisoned(method(), **settings), federation=tiny())


def of_arrays(draw: Draw) -> Call:
    def pairs() -> object:
        made = [(draw.array(), draw.array(labels=True)) for _ in range(draw.choice((1, *[2] * 6)))]
        return draw.choice([*[made] * 9, tuple(made), made[0], draw.choice(ODD)])

    train, test, settings = pairs(), pairs(), {"device": "cpu"}
    if draw.random() < 0.4:
        names = ["seed", "alice", "device", "engine", "threads", "dtype", "name", "version"]
        settings |= draw.some([*names, "model", "schedule", "validation"], 2)
    given = {"model": lambda: nn.Linear(3, 2), "schedule": Schedule(1, batch_size=2)} | settings
    return lambda: pfl_lib.run("fedavg", federation=Federation.from_arrays(train, test, **given))


def of_table(draw: Draw) -> Call:
    cells = ["0", "1", "2", "", "a", "inf", "1e400", "-1", "nan", '"', ",", "é", "\0", "?", "1.5"]
    good = [f"{k % 2},{k},{k % 3},{'ab'[k % 2]}" for k in range(24)]
    lines = ["y,x,g,w", *good]
    for _ in range(draw.choice((0, 0, 1, 3))):
        place = draw.randrange(len(lines))
        lines[place] = ",".join(draw.choice(cells) for _ in range(draw.choice((3, 4, 4, 5))))
    path = Path(tempfile.mkdtemp()) / "table.csv"
    path.write_bytes("\n".join(lines).encode(draw.choice((*["utf-8"] * 9, "utf-16"))))
    draw.told["lines"] = lines if lines[1:] != good else "good"
    settings = {"label": "y", "split_by": "g"}
    if draw.random() < 0.8:
        settings |= draw.some(["label", "split_by", "bins", "inputs", "alice", "seed"], 2)
    given = draw.value("path") if draw.random() < 0.1 else path

    def made() -> Federation:
        clients = from_csv(given, **settings)
        model = lambda: nn.Linear(*clients.input_shape, clients.classes)  # noqa: E731
        return Federation(clients, model, Schedule(1), alice=settings.get("alice"), device="cpu")

    return made


def of_partition(draw: Draw) -> Call:
    family = draw.choice(list(partitions.FAMILIES.values()))
    names = [field.name for field in fields(family)]
    must = [field.name for field in fields(family) if field.default is MISSING]
    letters = {"letters": "C", "column": "radius", "bounds": (15.0,)}
    settings = {name: letters.get(name, 1) for name in must} | draw.some(names)
    where = draw.some(["clients", "seed", "alice", "validation"], 2) if draw.random() < 0.5 else {}
    recipe = draw.random() < 0.9
    draw.told["family"] = family.__name__
    return lambda: partitions.make(
        family(**settings) if recipe else draw.value("partition"),
        load("digits", None, None),
        **where,
    )


def of_result(draw: Draw) -> Call:
    one, other = RESULTS
    value, second = draw.value("metric"), draw.value("protocol")
    keys = draw.told["keys"] = [draw.choice([*ODD[:30], "one", "other"]) for _ in range(2)]
    several = pfl_lib.compare({"one": one, "other": other})
    calls = {
        "value": lambda: one.value(value, second),
        "by_client": lambda: one.by_client(value, second),
        "save_model": lambda: one.save_model(value, second),
        "compare": lambda: pfl_lib.compare(value),
        "across": lambda: pfl_lib.compare(dict(zip(keys, (one, other), strict=True)), value),
        "differences": lambda: several.differences(value, second),
        "to_csv": lambda: several.to_csv(value, second),
        "to_latex": lambda: several.to_latex(value, second),
        "weights": lambda: pfl_lib.compare({"one": one, "other": value}).table,
        "summary": lambda: pfl_lib.compare({"a": [one, other], "b": value}, second),
    }
    draw.told["of"] = draw.choice(list(calls))
    return calls[draw.told["of"]]


RESULTS: list = []
FUNCTIONS = {  # each with how often it is called
    "run": (of_run, 4),
    "Schedule": (of_schedule, 4),
    "methods": (of_method, 5),
    "poisoned": (of_poisoned, 1),
    "from_arrays": (of_arrays, 4),
    "from_csv": (of_table, 4),
    "partitions": (of_partition, 5),
    "results": (of_result, 3),
}


def tried(name: str, k: int, seed: int, into) -> None:
    """Say what call k got, and the call where that is neither a result nor a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends this process
    draw, quiet = Draw(f"{seed} {k}"), io.StringIO()
    torch.manual_seed(k)
    try:
        with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
            FUNCTIONS[name][0](draw)()
        got, why = "result", ""
    except BadInput as error:
        got, why = "more lines" if "\n" in str(error) else "one line", str(error)
    except Exception as error:  # noqa: BLE001
        got, why = type(error).__name__, str(error)
    told = f"{name}: {got}: call {k}: {draw.told!r}"[:400] + f": {why}"[:300]
    into.send((got, "" if got in ("result", "one line") else " ".join(told.split())))


def main(count: int, seed: int) -> None:
    """Each call is a process of its own, forked from this one, which has what all of them need."""
    names = [name for name, (_, often) in FUNCTIONS.items() for _ in range(often)]
    RESULTS[:] = [pfl_lib.run(name, federation=tiny()) for name in ("fedavg", "local")]
    [load(name, None, None) for name in ("digits", "breast_cancer")]
    got, others = collections.defaultdict(collections.Counter), []
    fork = multiprocessing.get_context("fork")
    for k in range(count):
        name, (out, into) = names[k % len(names)], fork.Pipe(duplex=False)
        child = fork.Process(target=tried, args=(name, k, seed, into))
        child.start()
        into.close()
        what, told = "hang", f"{name}: hang: call {k}"
        with contextlib.suppress(EOFError):  # where it was ended
            what, told = out.recv() if out.poll(WAIT) else (what, told)
        child.kill()
        child.join()
        out.close()
        got[name][what] += 1
        if told:
            others.append(told)
            print(told, flush=True)
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    record = {"date": datetime.date.today().isoformat(), "commit": commit, "seed": seed}
    counts = {name: dict(counter) for name, counter in got.items()}
    record |= {"calls": count, "got": counts, "others": others}
    FOUND.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(counts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ.update(PFL_RESULTS_DIR=folder, PFL_DATA_DIR=folder, PFL_HEADLESS="1")
        torch.set_num_threads(1)
        main(*map(int, sys.argv[1:] or (3200, 1)))
