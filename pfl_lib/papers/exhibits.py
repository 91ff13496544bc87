"""What a page shows: its notebook, the runs behind it, the printed tables set beside ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pfl_lib.errors import choose
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Table

Runs = Callable[[Profile], tuple[RunSpec, ...]]


def nothing(profile: Profile) -> tuple:
    """For a page without runs, or one that needs no models."""
    return ()


@dataclass(frozen=True)
class Exhibit:
    """A page: `id` as the command line names it, `notebook` relative to the folder of notebooks.

    `runs(profile)` are the runs that its notebook needs, `models(profile)` those of them whose
    trained models it shows, which published results do not carry; without duplicates, empty where
    there are none.  `tables` are the printed tables that it sets beside ours.
    """

    id: str
    paper: str
    title: str
    notebook: str
    profiles: Mapping[str, Profile]
    runs: Runs = nothing
    tables: tuple[Table, ...] = ()
    models: Runs = nothing

    def profile(self, name: str, seeds: int | None = None) -> Profile:
        """The profile of that name, with seeds 1 to `seeds` where given; raises `BadInput` for an
        unknown name.
        """
        profile = self.profiles[choose("profile", name, self.profiles)]
        return profile if seeds is None else profile.with_seeds(seeds)
