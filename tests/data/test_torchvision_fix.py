"""Torchvision beside a torch of another build: cured where it fails, else left alone."""

import sys
import textwrap
from pathlib import Path

import pytest

from pfl_lib.data import torchvision_fix
from tests.common import fresh, refused

# What a torchvision without its compiled operators does, and a file that counts the attempts to
# import it.
FAULTY = """
    import pathlib
    from torchvision import left_over
    with open(pathlib.Path(__file__).with_name("attempts.txt"), "a") as stream:
        stream.write("x")
    import torch

    @torch.library.register_fake("torchvision::nms")
    def nms(dets, scores, iou_threshold):
        return dets.new_empty(0)

    @torch.library.register_fake("torchvision::qnms")
    def qnms(dets, scores, iou_threshold):
        return dets.new_empty(0)
"""


def write_torchvision(folder: Path, source: str) -> Path:
    """A package called torchvision, with a submodule `left_over`; the folder it is in."""
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(textwrap.dedent(source))
    (folder / "torchvision" / "left_over.py").write_text("")
    return folder


@pytest.fixture
def healthy_or_not(tmp_path, monkeypatch):
    """Install a torchvision with the given source for this test, in this process."""

    def install(source: str) -> None:
        monkeypatch.syspath_prepend(write_torchvision(tmp_path, source))

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    declared = torchvision_fix.declared_operators.cache_info().currsize
    yield install
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    assert torchvision_fix.declared_operators.cache_info().currsize == declared, (
        "operators were declared without need"
    )


def test_a_torchvision_without_its_operators_is_imported_at_the_second_try(tmp_path):
    program = """
        import sys
        try:
            import torchvision
        except RuntimeError as error:
            print(error)
        before = sys.modules["torchvision.left_over"]
        from pfl_lib.data.torchvision_fix import import_torchvision
        torchvision = import_torchvision()
        print(import_torchvision() is torchvision, sys.modules["torchvision"] is torchvision)
        print(torchvision.left_over is before, sys.modules["torchvision.left_over"] is before)
    """
    path = str(write_torchvision(tmp_path, FAULTY))  # torch knows no torchvision there yet
    assert fresh(program, PYTHONPATH=path).splitlines() == [
        "operator torchvision::nms does not exist",  # what a plain import says
        "True True",
        "False False",  # nothing is left of the failed import
    ]
    assert len((tmp_path / "torchvision" / "attempts.txt").read_text()) == 3


def test_a_healthy_torchvision_is_imported_and_nothing_is_declared(healthy_or_not):
    healthy_or_not("from torchvision import left_over\nhealth = 'good'")
    assert torchvision_fix.import_torchvision().health == "good"
    assert torchvision_fix.import_torchvision() is sys.modules["torchvision"]


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("raise RuntimeError('no operator torchvision::roi_align')", RuntimeError, "roi_align"),
        ("import a_package_that_is_not_there", ModuleNotFoundError, "a_package_that_is_not_there"),
    ],
    ids=["another operator", "another package"],
)
def test_any_other_error_of_the_import_is_passed_on(healthy_or_not, source, error, words):
    healthy_or_not(source)
    with pytest.raises(error, match=words):
        torchvision_fix.import_torchvision()


def test_where_torchvision_is_missing_one_line_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(torchvision_fix.importlib, "import_module", missing)
    told = "^torchvision, which .*, is not installed: pip install torchvision$"
    refused(told, torchvision_fix.import_torchvision)
