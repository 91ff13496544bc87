"""What a table or figure of a paper is made of: its notebook, the runs behind it, the printed
values beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pfl_lib.errors import choose
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.verdicts import Printed


@dataclass(frozen=True)
class Entry:
    """One printed result and the runs, one a seed, that answer it; no runs when this package does
    not run it yet.

    `dataset`, `setting` and `method` are the paper's own names.  Entries that share paper, table,
    dataset and setting are one row of the paper's table.  `reason` explains, where that is known,
    why the value is not reproduced.
    """

    paper: str
    table: str
    dataset: str
    setting: str
    method: str
    printed: Printed
    runs: tuple[RunSpec, ...] = ()
    reason: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """What the entries of one row of a table have in common."""
        return self.paper, self.table, self.dataset, self.setting


def nothing(profile: Profile) -> tuple:
    """For an exhibit without runs, without printed results, or that needs no models."""
    return ()


@dataclass(frozen=True)
class Exhibit:
    """A page: `id` as the command line names it, `notebook` relative to the folder of notebooks.

    `runs(profile)` are the runs that its notebook needs, `entries(profile)` the printed results
    that it compares, `models(profile)` those of its runs whose trained models it shows, which
    published results do not carry; all without duplicates and empty where there are none.
    """

    id: str
    paper: str
    title: str
    notebook: str
    profiles: Mapping[str, Profile]
    runs: Callable[[Profile], tuple[RunSpec, ...]]
    entries: Callable[[Profile], tuple[Entry, ...]]
    models: Callable[[Profile], tuple[RunSpec, ...]] = nothing

    def profile(self, name: str, seeds: int | None = None) -> Profile:
        """The profile of that name, with seeds 1 to `seeds` where given; raises `BadInput` for an
        unknown name.
        """
        profile = self.profiles[choose("profile", name, self.profiles)]
        return profile if seeds is None else profile.with_seeds(seeds)
