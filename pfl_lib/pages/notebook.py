"""What every notebook consists of beside its own table or figure: the blocks that all share.

`settings` (from `parameters`) checks a notebook's parameters; `run` trains what is missing; `say`
answers in a sentence; `show_partitions` says who holds what; `provenance` closes the page.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import replace

from pfl_lib.errors import BadInput
from pfl_lib.pages.page import NotRun
from pfl_lib.pages.parameters import Settings, settings

__all__ = [
    "NotRun",
    "Settings",
    "banner",
    "partition_of",
    "partitions_of",
    "provenance",
    "run",
    "say",
    "settings",
    "show_html",
    "show_partitions",
]


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


def show_html(text: str, plain: str) -> None:
    """Show HTML made from results; `plain` says the same where HTML cannot be shown."""
    from IPython.display import display

    display({"text/html": text, "text/plain": plain}, raw=True)


def run(page, profile, settings: Settings, least: int = 1) -> None:
    """Train those of a page's runs that are not stored yet, and say in one line what there is.

    `page` is an `Exhibit`; runs whose models it shows are trained as well where they are stored
    without them.

    With `plots_only` nothing is trained: what is missing is shown as not run, and if fewer than
    `least` are stored, there is nothing to draw: `NotRun` says so, and which command trains them.
    Raises RuntimeError, with its reason, when a run fails.
    """
    from pfl_lib.experiments.runner import run_many
    from pfl_lib.experiments.spec import RunFailure
    from pfl_lib.federation.devices import choose_device

    specs = page.runs(profile)
    needed = () if settings.plots_only else page.models(profile)
    missing = [
        spec for spec in specs if settings.store.find(spec, with_model=spec in needed) is None
    ]
    if missing and settings.plots_only:
        if len(specs) - len(missing) < least:
            raise NotRun(
                f"{len(missing)} of the {len(specs)} runs behind this page are not stored; to train"
                f" them: pfl-lib reproduce --profile {settings.profile} --only {page.id}"
            )
        print(
            f"{len(specs) - len(missing)} of {len(specs)} runs are stored; the others count as not"
            f" run (plots_only): pfl-lib reproduce --profile {settings.profile} --only {page.id}"
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
        print(f"Who holds what under {setting.partition} cannot be shown: {error}")
        return None
    return dataset, partitions.make(setting.partition, dataset, setting.clients, seed)


def partition_of(profile, distribution: str, settings: Settings):
    """`split_of` the first setting that the profile runs, with this distribution and the profile's
    first seed.
    """
    setting = replace(profile.made[0], partition=distribution)
    return split_of(setting, settings, profile.seeds[0])


def partitions_of(profile, distributions: Sequence[str], settings: Settings) -> dict:
    """Distribution -> (data set, partition), as `partition_of`, of those whose data are at hand."""
    held = {name: partition_of(profile, name, settings) for name in distributions}
    return {name: split for name, split in held.items() if split}


def show_partitions(profile, distributions: Sequence[str], settings: Settings) -> None:
    """Show who holds which labels under each distribution, the numbers folded below each picture;
    a line that says why where the data cannot be had, as a page has more to show than these.

    It returns nothing: as a cell's last line it would be shown below the pictures.
    """
    from pfl_lib.display import figures, tables

    try:
        held = partitions_of(profile, distributions, settings)
    except BadInput as error:
        print(f"Who holds which labels cannot be shown: {error}")
        return
    for distribution, (dataset, partition) in held.items():
        figures.show(*figures.partition_card(partition, dataset))
        caption = f"Training images by client and label, distribution {distribution}"
        tables.show_table(tables.holdings(partition, dataset), caption, folded=True)


def provenance(settings: Settings, profile, specs: Sequence = ()) -> None:
    """Show where a page's numbers come from: profile, seeds and data (none of a page that shows
    several papers), code, and the key of every run, with the versions it was made with.

    Runs that differ in the seed alone stand together: a mean over them links to the first.
    """
    import platform

    import pandas as pd
    import torch
    from IPython.display import display

    from pfl_lib import data
    from pfl_lib.display import tables
    from pfl_lib.display.table_format import Place, run_place
    from pfl_lib.experiments.made import NO_RECORD, code_version

    by_setting: dict = {}
    for spec in specs:
        by_setting.setdefault(replace(spec, seed=0), []).append(spec)
    alike = {spec: place for place, runs in enumerate(by_setting.values()) for spec in runs}
    found = [(spec, settings.store.find(spec)) for spec in alike]
    seconds = sum(result.seconds for _, result in found if result)
    facts = {}
    if profile is not None:
        seeds = tuple(sorted({spec.seed for spec in specs})) or profile.seeds
        data_sets = (f"{name}, fingerprint {data.fingerprint(name)}" for name in profile.datasets)
        facts = {
            "profile": profile.name,
            "seeds": replace(profile, seeds=seeds).seed_words,
            "data": "; ".join(data_sets),
        }
    facts |= {
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
        # Numbers link into the list; a browser then opens it, JupyterLab does not.
        folded = "" if os.environ.get("PFL_PAGE") else " open"
        keys = pd.DataFrame(
            [
                {
                    "run": Place(spec.slug, run_place(spec.slug)),
                    "key": spec.key[:16],
                    "best, %": 100 * result.best_accuracy if result else math.nan,
                    "last, %": 100 * result.last_accuracy if result else math.nan,
                    "finished": result.config.get("finished", NO_RECORD) if result else "not run",
                    "seconds": f"{result.seconds:.1f}" if result else "",
                    "code": result.config.get("code", NO_RECORD) if result else "",
                    "torch": result.config.get("torch", "") if result else "",
                    "device": result.config.get("device", "") if result else "",
                    "processor": result.config.get("processor", NO_RECORD) if result else "",
                }
                for spec, result in found
            ],
            dtype=object,  # a column of words would lose their links
        )
        caption = "Runs behind this page; those of a mean, one a seed, stand together"
        text += (
            f"<details{folded}><summary>Keys of the {len(specs)}"
            f" runs</summary>{tables.to_html(keys, caption, alike=list(alike.values()))}</details>"
        )
    display({"text/html": text, "text/plain": words}, raw=True)
