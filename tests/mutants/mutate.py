"""Single changes to the package, each put before the tests of its file: which of them notice?

By hand, with the number of mutants, a seed and, at will, rooms:

    python tests/mutants/mutate.py 120 1 methods

No file is changed: tests run in a copy of the repository in which one place is altered.  What
came of each goes to reports/proof/mutants.csv as it comes.  A mutant that hangs for `SECONDS` of
processor time is caught too.
"""

import ast
import csv
import datetime
import functools
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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


def outcome(mutant: Mutant, copy: Path) -> tuple[str, str]:
    """What came of it in a copy of the repository, "caught" or "survived", and the test that
    noticed.
    """
    place = copy / "pfl_lib" / mutant.file
    before = place.read_text(encoding="utf-8")
    place.write_text(mutant.source(), encoding="utf-8")
    options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *tests_of(mutant.file)]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (SECONDS, SECONDS))
    given = {"cwd": copy, "env": os.environ | {"PYTHONPATH": str(copy)}, "preexec_fn": limit}
    done = subprocess.run(command, capture_output=True, text=True, **given)
    place.write_text(before, encoding="utf-8")
    if done.returncode in (0, 5):  # 5: none of these tests is of this file
        return "survived", ""
    if done.returncode < 0:
        return "caught", f"no end within {SECONDS} s of computing"
    noticed = re.search(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return "caught", noticed[1] if noticed else "tests cannot be imported"


def main(count: int, seed: int, rooms: list[str], copy: Path) -> None:
    """Try what the table does not have yet, in these rooms (none: in all)."""
    known = list(csv.DictReader(TABLE.open(encoding="utf-8"))) if TABLE.is_file() else []
    done = {(row["file"], row["before"], row["after"]) for row in known}
    unaltered = Mutant("methods/mocha.py", 0, 0, "")
    assert outcome(unaltered, copy) == ("survived", ""), "no fair trial"
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    with TABLE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not known:
            writer.writeheader()
        for mutant in drawn(count, seed):
            row = mutant.row()
            if rooms and mutant.file.partition("/")[0] not in rooms:
                continue
            if (row["file"], row["before"], row["after"]) in done:
                continue
            row["outcome"], row["test"] = outcome(mutant, copy)
            today = datetime.date.today().isoformat()
            writer.writerow(row | {"seed": seed, "date": today, "commit": commit})
            file.flush()
            place = f"{row['file']}:{row['line']}"
            print(f"{row['outcome']:15} {place} {row['before']} -> {row['after']}", flush=True)


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", PFL_HEADLESS="1", MPLBACKEND="Agg")
    count, seed, *rooms = sys.argv[1:] or (120, 1)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in tracked.stdout.splitlines():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(folder) / name)
        main(int(count), int(seed), rooms, Path(folder))
