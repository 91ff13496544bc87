"""The command line: what it says, its exit status, and that bad input is one line."""

import contextlib
import dataclasses
import errno
import io
import itertools
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import pfl_lib
from pfl_lib import papers
from pfl_lib.__main__ import main
from pfl_lib.cli import listing, training
from pfl_lib.experiments.runner import run_one
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, METHODS, FedAvg, Local
from pfl_lib.pages import html, registry
from pfl_lib.pages.collect import Needed
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.papers.scorecard import answered
from pfl_lib.results.store import Store
from tests.common import refused
from tests.pages.common import run_cells


def told(capsys, words: str) -> str:
    """Run the command line on bad input and return the one line it printed."""
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("pfl-lib: "), printed.err
    return lines[0]


def test_bad_input_is_told_in_one_line_with_status_2(capsys):
    for argv, words in (
        ("reproduce --profile huge", ["'huge'", "quick", "small", "paper"]),
        ("reproduce --only waffle-table9", ["'waffle-table9'", "waffle-table1"]),
        ("reproduce --jobs 0", ["--jobs", "0", "x>=1"]),
        ("reproduce --train-only --again", ["--train-only makes no pages", "--again"]),
        ("reproduce --train-only --reports-dir else", ["--train-only makes no", "--reports-dir"]),
        ("reproduce --plots-only --train-only", ["--train-only", "--plots-only", "one of them"]),
        ("reproduce --plots-only --scheduler tcp://x:1", ["trains nothing: leave --scheduler out"]),
        ("reproduce --hours 1", ["--hours is for --train-only"]),
        ("reproduce --train-only --hours nan", ["--hours nan: give a number above 0"]),
        ("reproduce --seeds two", ["--seeds", "'two'", "integer"]),
        ("reproduce --seeds 10001", ["--seeds", "10001", "1<=x<=10000"]),
        (f"results list --results-dir {__file__}", [f"results folder {__file__} is a file"]),
        ("reproduce --device tpu", ["'tpu'", "cuda"]),
        ("reproduce --colour red", ["--colour"]),
        ("reproduce --data-dir /does/not/exist", ["/does/not/exist", "does not exist"]),
        (f"reproduce --data-dir {__file__}", [f"data folder {__file__} is a file, not a folder"]),
        ("reproduce --results-dir=", ["folder '': give its path"]),
        ("reproduce --method a.py:B", ["--method joins printed tables", "--only"]),
        ("reproduce --only waffle-table1 --method /no/a.py:B", ["/no/a.py does not exist"]),
        ("reproduce --only waffle-fig3 --method m:M", ["'waffle-fig3' shows no printed table"]),
        ("compare --format xml", ["'xml'", "csv"]),
        ("compare --only nothing", ["'nothing'", "waffle-table1"]),
        ("fly", ["'fly'", "reproduce"]),
        ("", ["command", "reproduce"]),
        ("results", ["command", "prune"]),
    ):
        line = told(capsys, argv)
        assert all(word in line for word in words), line


def test_a_data_folder_without_the_data_names_the_files_and_what_to_do(capsys, tmp_path):
    (tmp_path / "data").mkdir()
    words = f"--data-dir {tmp_path}/data --results-dir {tmp_path}/a --reports-dir {tmp_path}/b"
    line = told(capsys, f"reproduce --profile small --only waffle-fig4 --seeds 99 {words}")
    assert "train-images-idx3-ubyte" in line and "--data-dir" in line


@pytest.mark.parametrize("option", ["--results-dir", "--reports-dir"])
def test_a_folder_that_cannot_be_written_is_named_with_its_option(capsys, tmp_path, option):
    (tmp_path / "file").write_text("not a folder")
    folders = {"--results-dir": tmp_path / "results", "--reports-dir": tmp_path / "reports"}
    folders[option] = tmp_path / "file" / "below"
    words = " ".join(f"{name} {folder}" for name, folder in folders.items())
    line = told(capsys, f"reproduce --only waffle-fig8 {words}")
    assert str(folders[option]) in line and option in line


def test_list_names_every_page_method_and_distribution(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    some = ["weight_erosion", "digits", "A*", "Shards", "Dominant", "lenet5-relu"]
    for name in [*registry.pages(), *papers.PROFILES, *some]:
        assert f"  {name} " in printed or f"  {name}\n" in printed, name
    assert main(["list", "waffle", "xyzzy"]) == 2
    assert "no line has all of waffle, xyzzy: leave a word out" in capsys.readouterr().err


def compared(capsys, folder: Path, words: str = "") -> str:
    """What is printed of WAFFLE's Table 1 in the quick profile."""
    argv = f"compare --only waffle-table1 --profile quick --results-dir {folder} {words}"
    assert main(argv.split()) == 0
    return capsys.readouterr().out


def test_compare_can_be_csv_every_run_or_latex_whose_caption_tells_its_data(capsys, tmp_path):
    head, *lines = compared(capsys, tmp_path, "--format csv").splitlines()
    assert head.startswith("paper,table,dataset,setting,method,metric,") and len(lines) == 30
    assert sum(",not run," in line for line in lines) == 12  # two distributions, six methods
    assert sum(",left out," in line for line in lines) == 18
    head, *lines = compared(capsys, tmp_path, "--format runs").splitlines()
    assert head.startswith("paper,table,dataset,setting,method,own,metric,seed,value,last,status")
    assert len(lines) == 12  # one seed
    before, _, after = compared(capsys, tmp_path, "--format latex").partition("\\begin{table}")
    assert not before.strip() and "\\end{tabular}" in after
    assert "distributions, table1. Quick profile, seed 1 (" in after
    assert "dataset digits in place" in after
    told = "18 of 30 values left out\n12 of 30 values not run\n"
    assert told in compared(capsys, tmp_path)


def test_compare_prints_every_sentence_with_its_answer_and_profile(capsys, tmp_path, monkeypatch):
    """Of those that a page answered, its answer; of comparisons without runs, that they lack."""
    monkeypatch.setenv("PFL_IGNORE_PUBLISHED", "1")
    monkeypatch.setattr(papers, "PRINTED", papers.PRINTED[:1])
    assert main(["compare", "--format", "sentences", "--results-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    found = answered(papers.PRINTED, Store(tmp_path).find)
    said = ["".join(part.split()) for part in out.strip().split("\n\n")]
    assert len(said) == len(found) > 20
    for words, line in zip(said, found.to_dict("records"), strict=True):
        answer = f"{line['answer']}, {line['profile']} profile" if line["profile"] else "not run"
        answer = answer.replace(" ", "")
        assert f"({line['page']}):{answer}" in words
        assert words.endswith("".join(line["quote"].split()))


def test_compare_sets_a_method_of_ones_own_beside_the_papers(capsys, tmp_path):
    own = f"{Path(pfl_lib.__file__).parents[1] / 'notebooks' / 'same_direction.py'}:SameDirection"
    compared(capsys, tmp_path, f"--method {own}")
    page = registry.page("waffle-table1").with_methods([own])
    run = next(one for one in page.needed("quick").specs if one.method.name not in METHODS)
    ours = 100 * run_one(run, Store(tmp_path)).best_accuracy
    out = compared(capsys, tmp_path, f"--method {own}")
    lines = [line.split() for line in out.splitlines() if "Same direction" in line]
    [ran] = [line for line in lines if line[-2:] != ["not", "run"]]
    assert ran[-4:] == ["–", f"{ours:.2f}", "–", "1"] and len(lines) == 2
    assert "name their pages" in told(capsys, f"compare --method {own}")
    assert "--method" in told(capsys, f"compare --method {own} --format values")


def test_compare_without_results_says_so(capsys, tmp_path, monkeypatch):
    assert main(["compare", "--only", "waffle-fig8", "--results-dir", str(tmp_path)]) == 0
    assert "printed results stand on waffle-table1, " in capsys.readouterr().out
    monkeypatch.setattr("pfl_lib.results.store.Store.find", lambda *args: None)
    assert main(["compare", "--results-dir", str(tmp_path / "misspelt")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nothing to compare: nothing was run yet (pfl-lib ")
    assert err.startswith(f"there is no folder {tmp_path / 'misspelt'}: ")


def notebook(path, *code: str) -> None:
    cells = [nbformat.v4.new_markdown_cell("# Title\n\nWhat it is *about*. More.")]
    tags = {"tags": ["parameters"]}
    cells.append(nbformat.v4.new_code_cell("profile: str = 'quick'", metadata=tags))
    cells += [nbformat.v4.new_code_cell(source) for source in code]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@dataclasses.dataclass(frozen=True)
class Shown(NotebookPage):
    """A page whose runs are given, by profile."""

    specs: dict = dataclasses.field(default_factory=dict, hash=False)

    def needed(self, profile, seeds=None) -> Needed:
        return Needed(profile, tuple(self.specs.get(profile, [])))


def these(monkeypatch, folder: Path, **runs) -> None:
    """These pages are all there are: by id the runs of each by profile."""
    pages = {}
    for id, of in runs.items():
        file = folder / "notebooks" / f"{id}.ipynb"
        pages[id] = Shown(id, "WAFFLE", f"The {id} page", "Ab.", file, (), of)
    monkeypatch.setattr(registry, "pages", lambda: pages)


TINY = RunSpec(Local(), Schedule(rounds=1), dataset="digits", clients=10)


@pytest.fixture
def two_pages(tmp_path, monkeypatch):
    """Two pages of a paper, which both need the same run; "bad" fails."""
    notebook(tmp_path / "notebooks" / "good.ipynb", "print('fine', profile)")
    too_bad = "from pfl_lib import BadInput\nraise BadInput('too bad')"
    notebook(tmp_path / "notebooks" / "bad.ipynb", too_bad, "1 / 0")
    these(monkeypatch, tmp_path, bad={"quick": [TINY]}, good={"quick": [TINY]})
    monkeypatch.setattr("pfl_lib.papers.overview.overview", lambda shown, find: None)
    monkeypatch.setattr("pfl_lib.papers.overview.headline", lambda found: ["What came out."])
    folders = f"--results-dir {tmp_path}/results --reports-dir {tmp_path}/reports"
    return f"reproduce --profile quick {folders}".split()


def test_a_failing_notebook_does_not_stop_the_rest_and_shared_runs_are_trained_once(
    two_pages, tmp_path, capsys
):
    assert main([*two_pages, "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "2 pages: 0 of 1 runs stored" in printed
    assert printed.index("training 1, 1 at a time: about ") < printed.index("trained 1, failed 0")
    assert "failed: quick/bad.html: BadInput: too bad" in printed and "1 failed" in printed

    good, bad, listed = (
        (tmp_path / "reports" / name).read_text()
        for name in ("quick/good.html", "quick/bad.html", "index.html")
    )
    assert "fine quick" in good and 'chip not-run">not compared' in listed
    assert "BadInput: too bad" in bad and "ZeroDivisionError" not in bad
    assert 'chip failed">failed' in listed
    assert listed.index("The bad page") < listed.index("The good page")
    assert html.faults(good) == html.faults(bad) == html.faults(listed) == []

    # A second time everything is stored and the good page is up to date; a page that is not asked
    # for stays in the index.
    made = (tmp_path / "reports" / "executed" / "quick" / "good.ipynb").stat().st_mtime_ns
    assert main([*two_pages, "--only", "good"]) == 0
    printed = capsys.readouterr().out
    assert "1 pages: 1 of 1 runs stored" in printed and "training" not in printed
    assert "up to date: quick/good.html" in printed
    assert (tmp_path / "reports" / "executed" / "quick" / "good.ipynb").stat().st_mtime_ns == made
    assert 'chip failed">failed' in (tmp_path / "reports" / "index.html").read_text()

    # A changed notebook is executed again.
    notebook(tmp_path / "notebooks" / "good.ipynb", "print('better', profile)")
    assert main([*two_pages, "--only", "good"]) == 0
    assert "up to date" not in capsys.readouterr().out
    assert "better quick" in (tmp_path / "reports" / "quick" / "good.html").read_text()


def test_train_only_makes_no_pages(two_pages, tmp_path, capsys):
    assert main([*two_pages[:5], "--jobs", "1", "--train-only"]) == 0
    assert "trained 1, failed 0" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"notebooks", "results"}
    assert len(list((tmp_path / "results" / "cells").iterdir())) == 1


def test_a_page_whose_runs_are_missing_is_not_run_and_no_failure(two_pages, tmp_path, capsys):
    notebook(
        tmp_path / "notebooks" / "good.ipynb",
        "from pfl_lib.pages.page import NotRun\nraise NotRun('1 of 1 runs: pfl-lib reproduce')",
    )
    assert main([*two_pages, "--only", "good", "--plots-only"]) == 0
    printed = capsys.readouterr().out
    assert "not run: quick/good.html: 1 of 1 runs: pfl-lib reproduce" in printed
    assert "the others are shown as not run" in printed and not (tmp_path / "results").exists()
    assert ">0 of 1 runs<" in (tmp_path / "reports" / "quick" / "good.html").read_text()
    assert "\n1 not run; " in printed and "failed" not in printed
    for name in ("index", "quick/good"):
        page = (tmp_path / "reports" / f"{name}.html").read_text().partition("</style>")[2]
        assert "not-run" in page and "failed" not in page


def in_this_process(jobs, at_once, done) -> None:
    """In place of `execute_all`: a kernel takes seconds to start."""
    for job in jobs:
        page = nbformat.read(job.source, as_version=4)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                run_cells(page.cells[1:], **job.parameters)
            except AssertionError:
                job.error = "AssertionError"
        page.cells[-1].outputs = [nbformat.v4.new_output("stream", text=printed.getvalue())]
        job.output.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page, job.output)
        done(job)


@pytest.fixture
def a_paper(two_pages, tmp_path, monkeypatch):
    """Page "good" has two paper runs, one of them published, and a small one; "bad" has none."""
    *seeds, alone = ([dataclasses.replace(TINY, seed=seed)] for seed in (1, 2, 3, 4, 9))
    bad = {"quick": seeds[0], "paper": alone, "small": alone}
    good = {"quick": seeds[0], "paper": seeds[1] + seeds[2], "small": seeds[3]}
    these(monkeypatch, tmp_path, bad=bad, good=good)
    published = Store(tmp_path / "theirs", tmp_path / "published")
    run_one(*seeds[1], published)
    published.publish(*seeds[1])
    monkeypatch.setattr(
        "pfl_lib.results.store.Store", lambda folder: Store(folder, tmp_path / "published")
    )
    notebook(tmp_path / "notebooks" / "bad.ipynb", "print('fine', profile)")
    monkeypatch.setattr(training, "estimate", lambda *args: 1.0)
    monkeypatch.setattr("pfl_lib.pages.build.execute_all", in_this_process)
    return [word for word in two_pages if word not in ("--profile", "quick")]


def test_an_interrupted_command_leaves_an_index_of_the_pages_that_there_are(
    a_paper, tmp_path, monkeypatch
):
    def interrupted(jobs, at_once, done) -> None:
        in_this_process([job for job in jobs if "good" in job.id], at_once, done)
        raise KeyboardInterrupt

    monkeypatch.setattr("pfl_lib.pages.build.execute_all", interrupted)
    assert main([*a_paper, "--plots-only"]) != 0
    listed = (tmp_path / "reports" / "index.html").read_text().partition("</style>")[2]
    assert '<h3><a href="paper/good.html">' in listed


def test_without_a_profile_stored_results_are_drawn_first_and_then_the_quick_profile_is_trained(
    a_paper, tmp_path, capsys
):
    assert main([*a_paper, "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    drawn = printed.index("1 of the papers' 2 pages are drawn from stored runs")
    assert drawn < printed.index("index.html; now the live check") < printed.index("training 1, ")
    made = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.glob("reports/*/*.html"))
    assert made == ["reports/paper/good.html", "reports/quick/bad.html", "reports/quick/good.html"]
    good = (tmp_path / "reports" / "paper" / "good.html").read_text()
    assert "fine paper" in good and ">1 of 2 runs<" in good
    listed = (tmp_path / "reports" / "index.html").read_text().partition("</style>")[2]
    assert '<h3><a href="paper/good.html">' in listed and "failed" not in listed
    assert "--plots-only --only bad" not in listed and "--profile small --only bad</code>" in listed
    (stored,) = (tmp_path / "results" / "cells").iterdir()
    assert stored.name == registry.page("good").needed("quick").specs[0].slug


@pytest.mark.parametrize(
    ("code", "says"), [("assert profile != 'quick'", True), ("assert False", False)]
)
def test_where_the_live_check_alone_fails_a_line_says_what_does_not_rest_on_it(
    code, says, a_paper, tmp_path, capsys
):
    notebook(tmp_path / "notebooks" / "good.ipynb", code)
    assert main([*a_paper, "--jobs", "1", "--only", "good"]) == 1
    assert ("what failed is the live check" in capsys.readouterr().out) == says


def test_plots_only_checks_nothing_and_pages_of_two_profiles_do_not_overwrite_each_other(
    a_paper, tmp_path, capsys
):
    assert main([*a_paper, "--plots-only"]) == 0
    assert "live check" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("reports/*/*.html")] == ["good.html"]
    assert "Not run yet." in (tmp_path / "reports" / "index.html").read_text()
    main([*a_paper, "--only", "bad", "--plots-only"])
    assert "nothing to draw: without --profile these are the papers'" in capsys.readouterr().err
    main([*a_paper, "--profile", "small", "--only", "good", "--plots-only"])
    listed = (tmp_path / "reports" / "index.html").read_text()
    for name in ("paper", "small"):
        assert f"fine {name}" in (tmp_path / "reports" / name / "good.html").read_text()
        assert f'href="{name}/good.html"' in listed


@pytest.mark.parametrize(
    "stored, best", [((1, 1), "paper"), ((1, 2), "small"), ((2, 1), "paper"), ((0, 0), None)]
)
def test_a_page_is_drawn_in_the_profile_of_which_most_is_stored(stored, best):
    runs = {name: [(name, k) for k in range(3)] for name in ("paper", "small")}
    there = {(name, k) for name, n in zip(runs, stored, strict=True) for k in range(n)}
    page = Shown("p", "P", "P", "P.", Path("p.ipynb"), (), runs)
    found = page.most_stored(there.__contains__)
    assert (found and found.profile) == best


def test_the_estimate_times_batches_of_each_kind_and_counts_every_gradient(monkeypatch):
    """Alice has 100 digits under A: batches of 32, 32, 32 and 4, on average 25.  Eight of them in
    two seconds are 100 a second; of 4 digits each, by batches of 4, 16 a second.

    FedAvg takes 1,438 x 20 gradients, APFL a tenth more: by one process or by two, which share
    them unequally.
    """
    calls, clock = [], itertools.count(0.0, 2.0)

    def train(fed, rows, round, clients, *args, **kwargs):
        calls.append((round, tuple(clients), fed.schedule.local_batches))

    monkeypatch.setattr("pfl_lib.federation.federation.Federation.train", train)
    monkeypatch.setattr("pfl_lib.cli.training.time.perf_counter", lambda: next(clock))
    large, small = Schedule(20), Schedule(20, batch_size=4)
    fedavg, apfl, slow = (
        RunSpec(method, schedule, dataset="digits", partition="A")
        for method, schedule in ((FedAvg(), large), (APFL(), large), (FedAvg(), small))
    )
    assert training.estimate([fedavg, apfl], 1, None, "cpu") == pytest.approx(287.6 * 2.1)
    assert training.estimate([fedavg, apfl], 2, None, "cpu") == pytest.approx(287.6 * 1.1)
    assert calls == [(round, (0,), 8) for round in (1, 2)] * 2
    both = 287.6 * (1 + 100 / 16)
    assert training.estimate([fedavg, slow], 1, None, "cpu") == pytest.approx(both)
    longer = dataclasses.replace(fedavg, schedule=Schedule(20, local_epochs=5))
    assert training.estimate([longer], 1, None, "cpu") == pytest.approx(5 * 287.6)
    # Shares that cannot be dealt count nothing beside other runs, and alone say why
    split = dataclasses.replace(small, batch_size=8)
    undealt = RunSpec(FedAvg(), split, dataset="digits", partition="A", clients=5000)
    assert training.estimate([undealt, fedavg], 1, None, "cpu") == pytest.approx(287.6)
    refused("5000", training.estimate, [undealt], 1, None, "cpu")


def test_as_a_program_its_help_imports_neither_torch_nor_pandas_and_bad_input_exits_with_2():
    program = (
        "import sys; from pfl_lib.__main__ import main; main(['reproduce', '--help']);"
        "print(len({'torch', 'pandas', 'numpy'} & sys.modules.keys()));"
        "sys.exit(main(['reproduce', '--jobs', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2 and "--only" in done.stdout and done.stdout.endswith("\n0\n")
    assert done.stderr.startswith("pfl-lib: ") and done.stderr.count("\n") == 1


def test_a_full_disk_is_told_in_one_line_whatever_was_being_written(monkeypatch, capsys):
    def full(words):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/reports/index.html")

    monkeypatch.setattr(listing.command, "callback", full)
    assert main(["list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pfl-lib: the disk is full (/reports/index.html): make room; ")
