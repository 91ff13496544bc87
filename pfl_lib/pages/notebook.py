"""What every notebook starts with: its parameters checked, and the few lines of set-up that all
notebooks share.

papermill writes parameters it does not know into the notebook all the same and only logs that it
did, and hands `-p flag true` over as the text "true"; so the cell after the parameters calls
`settings(globals())`, which knows the declared parameters from their annotations (`profile: str =
"quick"`) and refuses everything else in one line.
"""

import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pydantic

from pfl_lib.errors import BadInput, choose
from pfl_lib.papers.verdicts import PROFILES
from pfl_lib.progress import headless

# What papermill can inject; whatever else a namespace holds (modules, functions, IPython's own) is
# no parameter.
PLAIN = (str, int, float, bool, list, dict, tuple, types.NoneType)
IPYTHON = ("In", "Out")
INJECTED = "# Parameters\n"  # how papermill's cell of injected parameters begins


class NotRun(BadInput):
    """The runs behind a page are missing, and nothing may be trained: the page is not run, which is
    no failure.
    """


class Settings(pydantic.BaseModel):
    """The parameters of a notebook, checked; a notebook's own parameters are further fields with
    the types it declared.

    profile: how much of the experiment, `quick`, `small` or `paper`.  seeds: number of seeds, 0 for
    the profile's own.  data_dir, results_dir: folders, "" for the default.  jobs: processes, 0 for
    one per core.  device: `auto`, `cpu` or `cuda`.  plots_only: draw what is stored and train
    nothing.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    profile: str
    seeds: pydantic.NonNegativeInt
    data_dir: str
    results_dir: str
    jobs: pydantic.NonNegativeInt
    device: Literal["auto", "cpu", "cuda"]
    plots_only: bool

    @cached_property
    def store(self):
        """The `Store` that this notebook reads results from and saves them to."""
        from pfl_lib.results.store import Store

        return Store(self.results_dir or None)

    @property
    def headless(self) -> bool:
        """Whether the notebook is being executed for a page, so that bars and widgets stay away."""
        return headless()


def settings(namespace: Mapping[str, Any]) -> Settings:
    """Check the parameters of the notebook whose `globals()` are given; the first call after the
    parameter cell.

    Raises `BadInput`, one line, for a name that the parameter cell does not declare, for a missing
    one, and for a value of another type or outside what is allowed.
    """
    declared = dict(namespace.get("__annotations__", {}))
    allowed = ", ".join(declared or Settings.model_fields)
    for name in Settings.model_fields:
        if name not in declared or name not in namespace:
            raise BadInput(
                f"the parameter cell does not declare {name!r}; it needs"
                f" {', '.join(Settings.model_fields)}"
            )
    # Run again in an open notebook, later cells have left names of their own; on a fresh kernel
    # there is nothing but parameters yet.
    again = any(isinstance(value, Settings) for value in namespace.values())
    if not again:
        for name, value in namespace.items():
            if (
                name not in declared
                and not name.startswith("_")
                and name not in IPYTHON
                and isinstance(value, PLAIN)
            ):
                raise BadInput(f"parameter {name!r} is not one of {allowed}")
    own = {
        name: (kind, ...) for name, kind in declared.items() if name not in Settings.model_fields
    }
    model = pydantic.create_model("Settings", __base__=Settings, **own) if own else Settings
    try:
        checked = model(**{name: namespace[name] for name in declared if name in namespace})
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise BadInput(
            f"parameter {name} = {first.get('input')!r}:"
            f" {first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None
    choose("profile", checked.profile, PROFILES)
    if any(str(source).startswith(INJECTED) for source in namespace.get("In", ())):
        # papermill put parameters in, so nobody watches this kernel: no bars, whose last state
        # would stay in the output.
        os.environ.setdefault("PFL_HEADLESS", "1")
    if checked.data_dir and not Path(checked.data_dir).expanduser().is_dir():
        raise BadInput(
            f"data_dir {checked.data_dir!r} is not a folder; leave it empty for the default"
        )
    return checked


def banner(profile) -> None:
    """Say what the profile runs and how that differs from the paper; on a page made in batch the
    header says it already.
    """
    if os.environ.get("PFL_PAGE"):
        return
    import html

    from IPython.display import display

    display(
        {
            "text/html": f"<p><strong>{html.escape(profile.banner)}</strong></p>",
            "text/plain": profile.banner,
        },
        raw=True,
    )


def say(words: str) -> None:
    """Show a sentence that was made from results, as prose (Markdown)."""
    from IPython.display import display

    display({"text/markdown": words, "text/plain": words}, raw=True)


def run(specs: Sequence, settings: Settings, least: int = 1, models: Sequence = ()) -> None:
    """Train those of a page's specs that are not stored yet, and say in one line what there is.

    Those that are also in `models` are trained as well where they are stored without their models.

    With `plots_only` nothing is trained: what is missing is shown as not run, and if fewer than
    `least` are stored, there is nothing to draw: `NotRun` says so, and which command trains them.
    Raises RuntimeError, with its reason, when a run fails.
    """
    from pfl_lib.experiments.runner import run_many
    from pfl_lib.experiments.spec import RunFailure
    from pfl_lib.federation.federation import choose_device

    needed = () if settings.plots_only else models
    missing = [
        spec for spec in specs if settings.store.find(spec, with_model=spec in needed) is None
    ]
    if missing and settings.plots_only:
        if len(specs) - len(missing) < least:
            raise NotRun(
                f"{len(missing)} of the {len(specs)} runs behind this page are not stored in"
                f" {settings.store.root}:"
                f" pfl-lib reproduce --profile {settings.profile} trains them"
            )
        print(
            f"{len(specs) - len(missing)} of {len(specs)} runs are stored; the others count as not"
            " run (plots_only)."
        )
        return
    if missing:
        choose_device(settings.device)  # one clear line before anything starts
    results = run_many(
        missing,
        settings.store,
        settings.jobs or None,
        settings.data_dir or None,
        settings.device,
        progress=not settings.headless,
        # What is missing is trained in any case, and what lacks its model has a result already
        with_model=True,
    )
    failures = [result for result in results if isinstance(result, RunFailure)]
    if failures:
        raise RuntimeError(
            f"{len(failures)} of {len(specs)} runs failed; {failures[0].spec.slug}:"
            f" {failures[0].message}"
        )
    print(f"{len(specs)} runs, all stored.")


def split_of(setting, settings: Settings, seed: int = 1):
    """The data set of a table's setting (`papers.settings.Setting`), as a profile makes it, and its
    partition with a seed: what the partition pictures show.

    None, after a line that says why, when the data are not at hand and only stored results are to
    be drawn.
    """
    from pfl_lib import data, partitions

    try:
        dataset = data.load(
            setting.dataset,
            settings.data_dir or None,
            setting.images,
            download=not settings.plots_only,
        )
    except BadInput as error:
        if not settings.plots_only:
            raise
        print(f"Distribution {setting.partition} cannot be shown: {error}")
        return None
    return dataset, partitions.make(setting.partition, dataset, setting.clients, seed)


def partition_of(profile, distribution: str, settings: Settings):
    """`split_of` the paper's first setting, as the profile makes it, with this distribution and the
    profile's first seed.
    """
    setting = replace(profile.make(profile.settings[0]), partition=distribution)
    return split_of(setting, settings, profile.seeds[0])


def provenance(settings: Settings, profile, specs: Sequence = ()) -> None:
    """Show where a page's numbers come from: profile, seeds, code, data, and the key of every run,
    with the versions it was made with.
    """
    import platform

    import pandas as pd
    import torch
    from IPython.display import display

    from pfl_lib import data
    from pfl_lib.display import tables

    found = [(spec, settings.store.find(spec)) for spec in specs]
    seconds = sum(result.seconds for _, result in found if result)
    facts = {
        "profile": profile.name,
        "seeds": (
            replace(
                profile, seeds=tuple(sorted({spec.seed for spec in specs})) or profile.seeds
            ).seed_words
        ),
        "data": "; ".join(
            f"{name}, fingerprint {data.fingerprint(name)}" for name in profile.datasets
        ),
        "code": f"pfl_lib {code_version()}",
        "with": f"Python {platform.python_version()}, torch {torch.__version__}",
    }
    if specs:
        facts["runs"] = (
            f"{sum(result is not None for _, result in found)} of {len(specs)} stored,"
            f" {seconds:,.0f} s of training in all"
        )
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{k}</th><td'
        f' style="text-align:left">{v}</td></tr>'
        for k, v in facts.items()
    )
    words = "\n".join(f"{name}: {value}" for name, value in facts.items())
    text = f'<table class="pfl-table"><tbody>{rows}</tbody></table>'
    if specs:
        keys = pd.DataFrame(
            [
                {
                    "run": spec.slug,
                    "key": spec.key[:16],
                    "device": result.config.get("device", "") if result else "not run",
                    "torch": result.config.get("torch", "") if result else "",
                    "seconds": f"{result.seconds:.1f}" if result else "",
                }
                for spec, result in found
            ]
        )
        text += (
            f"<details><summary>Keys of the {len(specs)}"
            f" runs</summary>{tables.to_html(keys, 'Runs behind this page')}</details>"
        )
    display({"text/html": text, "text/plain": words}, raw=True)


def code_version() -> str:
    """The package's version and, in a checkout, its commit: "0.1.0, commit 1a2b3c4" ("with changes"
    if files differ from it).
    """
    import subprocess
    from importlib import metadata

    try:
        version = metadata.version("pfl-lib")
    except metadata.PackageNotFoundError:
        version = "not installed"
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return version
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "--short=7", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", "--", "pfl_lib"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version}, commit {commit}" + (" with changes" if changed else "")
