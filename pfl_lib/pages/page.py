"""What a notebook is made of beside its own analysis: parameters, runs, figures, tables, answers,
checks, and where its numbers come from.

    page = Page("waffle-table1", globals(), waffle.ALL_PROFILES)
    runs = page.run(page.scaled(waffle.TABLE1))
"""

import json
import math
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch

from pfl_lib import data, partitions
from pfl_lib.data import DATASETS
from pfl_lib.display.table import MINUS, show_table
from pfl_lib.errors import BadInput
from pfl_lib.experiments import own
from pfl_lib.experiments.made import NO_RECORD, code_version
from pfl_lib.experiments.runner import find, run_many
from pfl_lib.experiments.spec import RunFailure, RunSpec, built_in
from pfl_lib.federation.devices import choose_device
from pfl_lib.pages.collect import Collected, collecting
from pfl_lib.papers import PRINTED, compare, sentences
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Table
from pfl_lib.results.files import OUTCOME
from pfl_lib.results.result import Result, status
from pfl_lib.results.several import Results
from pfl_lib.results.store import Store

ANSWER = "application/vnd.pfl-lib.answer+json"
COMPARED = "application/vnd.pfl-lib.compared+json"
"""Outputs: a sentence's answer for the scorecard, and counted verdicts and orders for the index."""
WRONG = "; wrong pairings: our value held against another method's, and how many would pass"
SMALLER = "; smaller runs alone, the scorecard takes exact ones first"
MANY = 8  # methods: of more, a table of several settings is wider than a page
NOT_RUN = "not run"  # the answer of a sentence of whose comparisons none was run


class NotRun(BadInput):
    """Runs behind a page are missing, and nothing may be trained: which is no failure."""


def beside(name: str) -> Path:
    """A file that ships with the notebooks, wherever one is run; BadInput where it is missing."""
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2] / "notebooks"):
        if (folder / name).is_file():
            return folder / name
    raise BadInput(f"{name} is neither here nor among the notebooks: give another file's path")


class Page:
    """A notebook's page.  `settings`: its parameters, checked; `profile`: the size it shows, None
    of a page that has no profiles; `store`: where results are.
    """

    def __init__(
        self, id: str, namespace: dict[str, Any], profiles: Mapping[str, Profile] | None = None
    ) -> None:
        """Check the parameters (the notebook's `globals()`), set the theme, tell the profile."""
        self.id, needed = id, collecting.get()
        if needed is None:
            from pfl_lib.pages.parameters import settings

            self.settings = settings(namespace)
        else:  # checked before; where only training is done, pydantic may be missing
            names = namespace["__annotations__"]
            self.settings = SimpleNamespace(**{name: namespace[name] for name in names})
        self.store = Store(self.settings.results_dir or None)
        self.profile = profiles and profiles[self.settings.profile]
        if self.profile and self.settings.seeds:
            self.profile = self.profile.with_seeds(self.settings.seeds)
        self.specs: tuple[RunSpec, ...] = ()
        self._results: dict[str, Result] = {}
        self._sources: dict[str, None] = {}  # each once, also of a cell that is run again
        self._missing: set[str] = set()
        self._places: list[str] = []
        if needed is not None:
            needed.size = self.profile
            return
        from pfl_lib.display import theme

        theme.use()
        if self.profile is not None and not os.environ.get("PFL_PAGE"):
            self.say(f"**{self.profile.banner}**")

    def scaled(self, table: Table) -> Table:
        """The table as the page's profile runs it, with the methods of the parameter `methods`."""
        return table.scaled(self.profile).with_methods(getattr(self.settings, "methods", ()))

    def run(
        self, *tables: Table, specs: Sequence[RunSpec] = (), models: bool = False, least: int = 1
    ) -> Runs:
        """Train what is missing of the tables' runs and of `specs`, which are then the page's, in
        place of those of an earlier call; returns the tables' runs.

        `models`: the trained models are needed too, which few published results carry.  With
        `plots_only` nothing is trained, and fewer than `least` stored runs raise `NotRun`.  Raises
        BadInput, with its reason, where a run fails; a line says so where the method is a reader's
        own, and the page goes on without it.
        """
        runs = Runs(tables, self.store.find)
        self.specs = tuple(dict.fromkeys([*runs.specs, *specs]))
        # Places may share a run, as two data sets do in the quick profile
        self._places = sorted({" ".join(run.place.values()) for run in runs.planned})
        if (needed := collecting.get()) is not None:
            needed.specs, needed.models = self.specs, self.specs if models else ()
            if self.profile and (seeds := sorted({spec.seed for spec in self.specs})):
                needed.size = replace(self.profile, seeds=tuple(seeds))
            raise Collected
        self._train(models, least)
        return runs

    def ran(
        self, *results: Result | Results, of: Sequence[type] = (), given: object = None
    ) -> None:
        """Count the stored results of `pfl_lib.run` among the page's runs; `of`: the reader's own
        classes behind them, whose source counts too; `given`: what else a page's numbers hang on.
        """
        every = (one for some in results for one in (some if isinstance(some, Results) else [some]))
        self._results |= {one.config["key"]: one for one in every if "key" in one.config}
        self._sources |= {own.source_of(*of): None} if of else {}
        self._sources |= {} if given is None else {repr(given): None}

    def _train(self, models: bool, least: int) -> None:
        given, count = self.settings, len(self.specs)
        with_model = models and not given.plots_only
        stored = self.store.find
        if not given.plots_only:  # which may load no data
            stored = partial(find, store=self.store, data_dir=given.data_dir or None)
        missing = [spec for spec in self.specs if stored(spec, with_model=with_model) is None]
        if missing and given.plots_only:
            there = count - len(missing)
            told = f"{there} of the {count} runs behind this page are stored; to train the others:"
            told += f" {self._to_train(missing)}"
            if there < least:
                raise NotRun(told)
            print(told)
            return
        if missing:
            choose_device(given.device)  # one clear line before anything starts
        place = (given.jobs or None, given.data_dir or None, given.device)
        # What lacks its model alone has a result already
        results = run_many(missing, self.store, *place, with_model=True)
        failed = [result for result in results if isinstance(result, RunFailure)]
        for result in failed:
            told = f"{result.spec.slug}: {result.message}"
            if built_in(result.spec.method):
                raise BadInput(f"{len(failed)} of {count} runs failed; {told}")
            print(f"failed: {told}")
        print(f"{count} runs, {count - len(failed) if failed else 'all'} stored.")

    def _to_train(self, missing: Sequence[RunSpec]) -> str:
        """How runs of the page are trained: of a reader's own setting, in the open notebook."""
        from pfl_lib.pages import registry  # which imports all papers

        given, planned = self.settings, ()
        methods = getattr(given, "methods", ())
        with suppress(BadInput):  # a copied notebook beside an installed package
            page = registry.page(self.id).with_methods(methods)
            planned = page.needed(given.profile, given.seeds or None).specs
        if not {*missing} <= {*planned}:
            return "set plots_only = False in the cell of parameters and run all cells"
        further = [f"--seeds {given.seeds}"] if given.seeds else []
        further += [f"--method {method}" for method in methods]
        command = f"pfl-lib reproduce --profile {given.profile} --only {self.id}"
        return " ".join([command, *further])

    def _display(self, bundle: dict[str, object]) -> None:
        from IPython.display import display

        words = ("text/markdown", "text/plain")  # with the sign that figures and tables have
        signed = {name: re.sub(MINUS, "−", bundle[name]) for name in words if name in bundle}
        display(bundle | signed, raw=True)

    def say(self, words: str) -> None:
        """Show a sentence (Markdown)."""
        self._display({"text/markdown": words, "text/plain": words})

    def show(self, figure, says: str) -> None:
        """Show a matplotlib figure; its alt text is `says` and the numbers drawn."""
        from pfl_lib.display import theme

        theme.show(figure, says)

    def table(
        self, frame: pd.DataFrame, caption: str, digits: int = 2, folded: bool = False
    ) -> None:
        """Show a frame (`display.table`), settings and metrics in words."""
        show_table(compare.in_words(frame), caption, digits, folded)

    def setting(self, *tables: Table) -> None:
        """Show what each table runs: its settings and its methods' hyper-parameters."""
        for table in tables:
            of = f": {table.name}" if len(tables) > 1 else ""
            what = f"What is run{of} ({table.profile} profile)"
            self.table(table.description(), what, folded=True)
            self.table(table.methods(), f"The methods' hyper-parameters{of}", folded=True)

    def compare(self, runs: Runs) -> pd.DataFrame:
        """The frame of `compare.beside`, in the small profile `with_exact`; the index counts its
        verdicts, there the exact setting's, and the orders of these runs' pairs.
        """
        beside = compare.with_exact(compare.beside(runs), self.exact)
        if len(beside) and self.settings.profile != "quick":
            verdict = "exact verdict" if "exact verdict" in beside else "verdict"
            words = [*beside[verdict][~beside["own"]].dropna(), *compare.pairs(runs)["order"]]
            self._display({COMPARED: Counter(words)})
        return beside

    @property
    def exact(self) -> list[Runs]:
        """What the exact setting gave for the tables of a page of the small profile."""
        tables = [one for one in PRINTED if one.page == self.id]
        return [one.runs(self.store.find)[0] for one in tables if self.settings.profile == "small"]

    def sizes(self, beside: pd.DataFrame) -> dict[str, str]:
        """The columns of `compare`'s frame that have numbers of ours, and what size these are."""
        exact = "at the paper's size"
        ours = {"paper": exact, "small": "in smaller runs", "quick": "on other data"}
        words = {"exact ours": exact, "ours": ours[self.settings.profile]}
        return {name: words[name] for name in words if name in beside and beside[name].count()}

    def show_beside(self, runs: Runs, beside: pd.DataFrame) -> None:
        """Show a table's printed values beside ours: as dots, as the paper lays them out for each
        data set (of many methods for each setting), row by row, and folded value by value.
        `beside`: what `compare` gave.
        """
        from pfl_lib.display.beside import bundle, dots

        shown = beside[beside["printed"].notna() | beside["own"]]
        if len(shown):
            first = shown[shown["metric"] == shown["metric"].iloc[0]]
            self._display(bundle(dots(compare.in_words(first))))
        ours = "ours of other data" if self.settings.profile == "quick" else "ours"
        each = ["dataset", "setting"] if beside["method"].nunique() > MANY else ["dataset"]
        for place, rows in beside.groupby(each, sort=False):
            layout, told = compare.as_printed(rows).droplevel("dataset"), place[0]
            if one := rows["setting"].nunique() == 1:
                layout = layout.droplevel("setting").rename_axis(index={"value": None})
                told += f", {compare.said(rows['setting'].iloc[0])}"
            if one or layout.shape[1] > len(layout):  # narrower with methods downwards
                layout = layout.T
            none = "; –: no such run, or nothing to compare" if "exact ours" in rows else ""
            self.table(layout, f"{told}: printed values and {ours}{none}")
        if self.settings.profile != "quick":
            orders = compare.orders(runs)
            left = ["paper", "table", "profile"]
            told = "Row by row: pairs of methods that the paper separates; tau: Kendall's"
            if self.settings.profile == "small":  # which judges no values
                left += ["wrong pairings", "of these pass"]
            else:
                told += WRONG
            orders = orders.drop(columns=left, errors="ignore")
            self.table(orders, told + (SMALLER if "exact ours" in beside else ""))
        values = beside.drop(columns=["paper", "table", "profile", "own", "run"])
        self.table(values, "Value by value", folded=True)

    def answer(self, quote: str, where: str, holds: bool | str | None, evidence: str) -> None:
        """Answer a sentence of the paper that its numbers answer here: True, False, None
        (undecided) or `NOT_RUN`, with the numbers; in the quick profile, whose data are not the
        paper's, only the numbers are shown.
        """
        word = {True: "yes", False: "no", None: "undecided", NOT_RUN: NOT_RUN}[holds]
        word = "" if self.settings.profile == "quick" else word
        told = {"page": self.id, "quote": quote, "where": where, "answer": word}
        told |= {"evidence": evidence, "profile": self.settings.profile}
        head = f"**{word}** " if word else ""
        words = f"> “{quote}” ({where})\n\n{head}{evidence}"
        self._display({ANSWER: told, "text/markdown": words, "text/plain": words})

    def sentences(self, runs: Runs) -> pd.DataFrame:
        """Answer the sentences of `claims.yaml` that stand on this page, and show them."""
        found = sentences.answers(runs, self.id)
        shown = ["quote", "where", "answer", "seeds", *sentences.COUNTS, "against"]
        told = found[[*shown, "by the paper's numbers"]]
        exact = any(runs.values["status"].isin(["ran", "diverged"]).any() for runs in self.exact)
        caption = "The paper's sentences, answered by these runs"
        self.table(told, caption + (SMALLER if exact else ""))
        return found

    def split(self, setting: Setting, seed: int = 1):
        """The data set of a setting and its partition with a seed, as (data set, partition); None,
        after a line that says why, where the data are not at hand and nothing may be downloaded.
        """
        folder, download = self.settings.data_dir or None, not self.settings.plots_only
        try:
            dataset = data.load(setting.dataset, folder, setting.images, download=download)
        except BadInput as error:
            if download:
                raise
            if setting.dataset not in self._missing:  # said once
                print(f"Who holds what under {setting.partition} cannot be shown: {error}")
            self._missing.add(setting.dataset)
            return None
        made = partitions.make(setting.partition, dataset, setting.clients, seed, setting.alice)
        return dataset, made

    def partitions(self, table: Table, *names: str) -> None:
        """Show who holds which labels in the table's settings of these names, or in all."""
        from pfl_lib.display import partition

        for row in table.rows:
            asked = row.at is not None and (not names or {row.setting, row.base} & {*names})
            if asked and (held := self.split(row.at)) is not None:
                name = DATASETS[row.at.dataset].title  # not the paper's, in the quick profile
                partition.show(*held, title=f"{name}, {compare.said(row.setting)}")

    def compare_with_recorded(
        self, what: str, values: Mapping[str, object], within: float = 0.0, relative: float = 0.0
    ) -> None:
        """Assert that `values` are those recorded under the name `what`, to a tolerance, or tell
        why nothing is compared, as `pages.recorded` does.
        """
        from pfl_lib.pages import recorded  # by pydantic, which a machine that only trains may lack

        # Not by a federation's key, in which other processors have other last bits
        aside = OUTCOME | {"fingerprint"}
        ran = [
            json.dumps({n: v for n, v in one.config.items() if n not in aside}, sort_keys=True)
            for one in self._results.values()
        ]
        runs = sorted([*(spec.key for spec in self.specs), *ran])
        runs = "".join([*runs, *self._places, *self._sources])
        recorded.compare_with_recorded(self.id, self.settings, what, values, within, relative, runs)

    def provenance(self) -> None:
        """Show the profile, the code, and every run with its key, versions and time."""
        found = [(spec.slug, spec.key, self.store.find(spec)) for spec in self.specs]
        for key, one in self._results.items():
            name = f"{one.config['method']['name']}, seed {one.config['seed']}"
            found.append((name, key, one))
        ran, rows = [one for *_, one in found if one], []
        versions = f"pfl_lib {code_version()}, Python {platform.python_version()}, torch"
        versions += f" {torch.__version__}"
        if not found:
            self.say(f"{versions}; no runs of its own")
            return
        self.say(
            f"{self.settings.profile} profile; {versions}; {len(ran)} of"
            f" {len(found)} runs stored, {sum(one.seconds for one in ran):,.0f} s of training"
        )
        known = ("finished", "code", "torch", "device", "processor")
        for name, key, one in found:
            row = {"run": name, "key": key[:16]}
            row["best, %"] = 100 * one.best_accuracy if one else math.nan
            row["last, %"] = 100 * one.last_accuracy if one else math.nan
            row |= {"seconds": one.seconds if one else math.nan, "status": status(one)}
            config = one.config if one else dict.fromkeys(known, NOT_RUN)
            rows.append(row | {name: config.get(name, NO_RECORD) for name in known})
        self.table(pd.DataFrame(rows), f"The {len(rows)} runs behind this page", folded=True)
