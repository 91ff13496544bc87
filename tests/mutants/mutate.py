"""Single changes to the package, each put before the tests of its file: which of them notice?

By hand, with the number of mutants, a seed and, at will, rooms:

    python tests/mutants/mutate.py 120 1 methods

No file is changed: a process of its own imports one module with one place altered and runs its
tests.  What came of each goes to reports/proof/mutants.csv as it comes.  A mutant that hangs for
`SECONDS` of processor time is caught too.
"""

import ast
import csv
import datetime
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "reports" / "proof" / "mutants.csv"
COLUMNS = ("file", "line", "before", "after", "outcome", "test", "seed", "date", "commit")
ROOMS = ("methods", "engine", "partitions", "federation")
SECONDS = 60
ELSEWHERE = dict.fromkeys(("fedbn", "fedrep", "lg_fedavg"), "partial") | {"validation": "recipes"}
"""Files whose tests, or some of them, stand in another file's."""
SHARED = ("differential", "identities", "bad_settings", "every_method")
"""Where the methods' tests stand that are the same for all; a file's are those that name it."""
ALSO = ("federation/federation.py", "federation/model_checks.py")  # what is recorded is theirs
USED = {"partial": "fedbn or fedrep or lgfedavg", "hypernetwork": "pfedhn or pfedla"}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.MatMult: "*"}
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
COMPARED |= {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
CALLS = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "sum": "mean", "mean": "sum"}

# Mutants that had survived once: file, what stands there, what is put in its place
NAMED = (
    ("methods/fedfomo.py", '"downloads", r, client)', '"downloads", r)'),
    ("methods/per_fedavg.py", 'outer, rows["statistics"])', "outer)"),
    ("methods/pfedme.py", "momentum=0.0, weight_decay=0.0)", "weight_decay=0.0)"),
    ("methods/mocha.py", '(own + rows["others"]) / n', '(own + rows["others"]) / len(clients)'),
    ("methods/fedavg_data.py", '"shared data", client)', '"shared data")'),
    ("methods/pfedhn.py", "updates).sum() / len(clients)", "updates).sum() / len(fed)"),
    ("methods/fedrep.py", 'purpose="batches of the head"', 'purpose="batches"'),
    ("partitions/classes.py", "stock(dataset)[held].min()", "stock(dataset).min()"),
    ("partitions/dealing.py", "recipe.train_share", "0.8"),
    ("partitions/dirichlet.py", "min(map(len, test)) >= 1", "min(map(len, test)) >= 0"),
    ("partitions/dirichlet.py", "bounds[:, -1] = 1.0", "pass"),
    ("partitions/validation.py", 'if part != "test" or one_pool', 'if part != "test"'),
    ("engine/flat.py", "trust.due |= trust.played >= after", "trust.due |= False"),
    ("engine/flat.py", "trust.played, trust.due = 0, False", "trust.played, trust.due = 0, True"),
    ("engine/flat.py", "trust.due = True  # nothing", "trust.due = False  # nothing"),
    ("engine/flat.py", "trust.trials -= trust.trials > 0", "trust.trials -= 0"),
    ("engine/flat.py", "(logits.argmax(-1) == y)", "(logits.argmin(-1) == y)"),
    ("rows.py", "counts = (weights[..., ~finite] != 0)", "counts = (weights[..., ~finite] == 0)"),
    ("rows.py", "batch.weight_decay * row", "batch.weight_decay * batch.lr"),
    ("rows.py", "isfinite() & matrix.amin(1)", "isfinite() & matrix.amax(1)"),
    ("papers/judge.py", "max(metric.floor, 2 * differences", "max(0, 2 * differences"),
)


@dataclass(frozen=True)
class Mutant:
    """`after` in place of the text from `start` to `stop` of a file below pfl_lib."""

    file: str
    start: int
    stop: int
    after: str

    def source(self) -> str:
        text = (ROOT / "pfl_lib" / self.file).read_text(encoding="utf-8")
        return text[: self.start] + self.after + text[self.stop :]

    def row(self) -> dict[str, object]:
        text = (ROOT / "pfl_lib" / self.file).read_text(encoding="utf-8")
        shown = " ".join(text[self.start : self.stop].split())
        line = text.count("\n", 0, self.start) + 1
        return {"file": self.file, "line": line, "before": shown, "after": self.after}


def named() -> list[Mutant]:
    """The mutants of `NAMED`; each text stands in its file once."""
    found = []
    for file, before, after in NAMED:
        text = (ROOT / "pfl_lib" / file).read_text(encoding="utf-8")
        assert before in text, f"{file} has no {before!r}"
        found.append(Mutant(file, text.index(before), text.index(before) + len(before), after))
    return found


def drawn(count: int, seed: int) -> list[Mutant]:
    """`count` mutants of the rooms: files by turns, and places within a file, at random."""
    draw, by_file = random.Random(seed), []
    for room in ROOMS:
        for path in sorted((ROOT / "pfl_lib" / room).glob("*.py")):
            every = list(mutants(path))
            draw.shuffle(every)
            by_file += [every] if every else []
    draw.shuffle(by_file)
    turns = [of[k] for k in range(max(map(len, by_file))) for of in by_file if k < len(of)]
    return turns[:count]


def mutants(path: Path) -> Iterator[Mutant]:
    """All single changes of a file: operators, comparisons, constants, dropped terms, swapped
    arguments, keys of draws; not in messages, annotations, names and colours.
    """
    text, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT / "pfl_lib").as_posix()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST) -> tuple[int, int]:
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def code(node: ast.AST) -> str:
        start, stop = place(node)
        return text[start:stop]

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from walk(node.value)
            return
        if isinstance(node, ast.ClassDef):  # plain assignments are names, versions and colours
            plain = [child for child in node.body if isinstance(child, ast.Assign)]
            for child in [*node.decorator_list, *node.body]:
                if child not in plain:
                    yield from walk(child)
            return
        if isinstance(node, ast.FunctionDef):
            for child in [*node.body, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
                yield from walk(child)
            return
        yield node
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    for node in walk(ast.parse(text)):
        for after in dict.fromkeys(changes(node, code)):
            yield Mutant(file, *place(node), after)


def changes(node: ast.AST, code) -> Iterator[str]:
    """What may stand in a node's place."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield f"({code(left)}) {OPERATORS[type(op)]} ({code(right)})"
            if isinstance(op, ast.Add | ast.Sub):
                yield f"({code(left)})"
        case ast.Compare(left, [op], [right]) if type(op) in COMPARED:
            yield f"({code(left)}) {COMPARED[type(op)]} ({code(right)})"
        case ast.BoolOp(op, [first, *rest]):
            other = " or " if isinstance(op, ast.And) else " and "
            yield "(" + other.join(f"({code(part)})" for part in (first, *rest)) + ")"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield f"({code(operand)})"
        case ast.Constant(bool() as value):
            yield str(not value)
        case ast.Constant(int() | float() as value):
            yield str(value + 1 if isinstance(value, int) else value * 2 or 1.0)
        case ast.IfExp(test, body, orelse):
            yield f"({code(orelse)} if {code(test)} else {code(body)})"
        case ast.Call(func, [*args], [*keywords]):
            given, named = [code(arg) for arg in args], [code(keyword) for keyword in keywords]
            name = code(func)
            base, _, last = name.rpartition(".")
            whole = f"{name}({{}})"
            if last in CALLS:
                called = f"{base}.{CALLS[last]}" if base else CALLS[last]
                yield f"{called}({', '.join(given + named)})"
            if last == "generator":
                for k in range(1, len(given)):
                    yield whole.format(", ".join(given[:k] + given[k + 1 :]))
            elif len(given) >= 2 and not any(isinstance(arg, ast.Starred) for arg in args):
                yield whole.format(", ".join([given[1], given[0], *given[2:], *named]))


class Altered(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from another source than its file's."""

    def __init__(self, mutant: Mutant) -> None:
        path = ROOT / "pfl_lib" / mutant.file
        parts = path.relative_to(ROOT).with_suffix("").parts
        self.package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if self.package else parts)
        super().__init__(name, str(path))
        self.text = mutant.source()

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            return importlib.util.spec_from_file_location(name, self.path, loader=self)
        return None

    def get_code(self, name):
        return compile(self.text, self.path, "exec")


def tests_of(file: str) -> list[str]:
    """The tests of a file, as pytest is told them; where it has none, those of its room."""
    room, _, name = file.rpartition("/")
    stem = name[:-3]
    stems = dict.fromkeys((stem, ELSEWHERE.get(stem, stem)))
    paths = [path for one in stems for path in (ROOT / "tests" / room).glob(f"test_{one}*.py")]
    told = [path.relative_to(ROOT).as_posix() for path in paths]
    if room == "methods" and (told or stem in USED):
        names = [*stems, stem.replace("_", ""), USED.get(stem, stem)]
        told += [f"tests/methods/test_{one}.py" for one in SHARED] + ["-k", " or ".join(names)]
    return (told or [f"tests/{room}"]) + ["tests/engine/test_recording.py"] * (file in ALSO)


class Watched:
    """A plugin of pytest that writes the name of the first failing test to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid.removeprefix("tests/"))

    def pytest_collectreport(self, report) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(f"{report.nodeid.removeprefix('tests/')} cannot be imported")


def outcome(mutant: Mutant) -> tuple[str, str]:
    """What came of it, "caught" or "survived", and the test that noticed."""
    first = Path(tempfile.mkdtemp()) / "first"
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        sys.meta_path.insert(0, Altered(mutant))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        try:
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
            pytest.main([*options, *tests_of(mutant.file)], plugins=[Watched(first)])
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if first.exists():
        return "caught", first.read_text()
    if os.WIFSIGNALED(status):
        return "caught", f"no end within {SECONDS} s of computing"
    return "survived", ""


def main(count: int, seed: int, rooms: list[str]) -> None:
    """Try what the table does not have yet, in these rooms (none: in all)."""
    known = list(csv.DictReader(TABLE.open(encoding="utf-8"))) if TABLE.is_file() else []
    done = {(row["file"], row["before"], row["after"]) for row in known}
    unaltered = Mutant("methods/mocha.py", 0, 0, "")
    assert outcome(unaltered) == ("survived", ""), "no fair trial"
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    with TABLE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for mutant in (*named(), *drawn(count, seed)):
            row = mutant.row()
            if rooms and mutant.file.partition("/")[0] not in rooms:
                continue
            if (row["file"], row["before"], row["after"]) in done:
                continue
            row["outcome"], row["test"] = outcome(mutant)
            today = datetime.date.today().isoformat()
            writer.writerow(row | {"seed": seed, "date": today, "commit": commit})
            file.flush()
            place = f"{row['file']}:{row['line']}"
            print(f"{row['outcome']:15} {place} {row['before']} -> {row['after']}", flush=True)


def preloaded() -> None:
    """Import what the package and its tests import, and forget the package itself."""
    for name in ("sklearn.datasets", "torch.testing", "pfl_lib.methods"):
        importlib.import_module(name)
    importlib.import_module("pfl_lib").run  # noqa: B018  # what it imports when it is asked for
    for name in [name for name in sys.modules if name.partition(".")[0] == "pfl_lib"]:
        del sys.modules[name]


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", PFL_HEADLESS="1", MPLBACKEND="Agg")
    os.chdir(ROOT)
    preloaded()
    count, seed, *rooms = sys.argv[1:] or (120, 1)
    main(int(count), int(seed), rooms)
