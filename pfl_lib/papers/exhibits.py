"""Pages in the old manner, whose notebooks ask for their runs here.  It goes with `pages.notebook`,
once the last of them is written anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pfl_lib.errors import choose
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.profiles import Profile

Runs = Callable[[Profile], tuple[RunSpec, ...]]


@dataclass(frozen=True)
class Exhibit:
    """A page's profiles, its runs, and those of them whose trained models it shows."""

    id: str
    profiles: Mapping[str, Profile]
    runs: Runs = lambda profile: ()
    models: Runs = lambda profile: ()

    def profile(self, name: str, seeds: int | None = None) -> Profile:
        """The profile of that name, with seeds 1 to `seeds` where given."""
        profile = self.profiles[choose("profile", name, self.profiles)]
        return profile if seeds is None else profile.with_seeds(seeds)


def exhibit(id: str) -> Exhibit:
    """The page in the old manner with that id."""
    paper = next(name for name in _PAPERS if id.startswith(name))
    return Exhibit(id, *_PAPERS[paper]()[id.removeprefix(f"{paper}-")])


def _weight_erosion() -> dict[str, tuple]:
    from pfl_lib.papers import weight_erosion as paper

    return {
        "fig1": (paper.ALL_PROFILES, paper.figure_runs),
        "claims": (paper.ALL_PROFILES, paper.claim_runs, paper._strict),
    }


_PAPERS = {"weight-erosion": _weight_erosion}
