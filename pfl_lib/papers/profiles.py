"""How much of a paper's experiment a page runs, and the sentence that says so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pfl_lib.data import DATASETS
from pfl_lib.errors import whole
from pfl_lib.papers.settings import Setting

PROFILES = ("quick", "small", "paper")
Make = Callable[[Setting], Setting | None]  # as a profile runs it; None where it is left out
TOLD = (  # what the banner compares with the paper's
    *("dataset", "training examples", "model", "clients", "rounds", "local_epochs"),
    *("batch_size", "lr", "participation", "augment"),
)


def smaller(rounds: int | None = None, images: int | None = None, dataset: str = "") -> Make:
    """A function that makes a setting smaller: at most so many rounds and images, other data; or
    leaves it as the paper has it.
    """

    def make(setting: Setting) -> Setting:
        most = [count for count in (setting.images, images) if count is not None]
        fewer = min(rounds or setting.schedule.rounds, setting.schedule.rounds)
        made = replace(setting, images=min(most, default=None), dataset=dataset or setting.dataset)
        return made.scheduled(rounds=fewer)

    return make


def only(keep: Callable[[Setting], bool], make: Make) -> Make:
    """`make` for the settings to keep; the others are left out."""
    return lambda setting: make(setting) if keep(setting) else None


@dataclass(frozen=True)
class Profile:
    """One size of a paper's experiment.

    `settings` are the paper's own; `make` makes one of them smaller, or gives None where this
    profile leaves it out (`only`).  `paper_seeds` is the number of seeds that the paper averages,
    `supposed` where it prints none.  `note`: what the banner cannot see by comparing settings.
    """

    name: str
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    paper_seeds: int
    make: Make = smaller()
    note: str = ""
    supposed: bool = False

    def with_seeds(self, count: int) -> "Profile":
        """The same profile with seeds 1 to `count`."""
        whole("seeds", count, 1)
        return replace(self, seeds=tuple(range(1, count + 1)))

    @property
    def banner(self) -> str:
        """What a page shows, and how that differs from the paper: fields, seeds, left out."""
        made = {setting: self.make(setting) for setting in self.settings}
        kept = {paper: ours for paper, ours in made.items() if ours is not None}
        told = []
        for name in TOLD:
            paper, ours = (_span(name, settings) for settings in (kept, kept.values()))
            if paper != ours:
                told.append(f"{name.replace('_', ' ')} {ours} in place of {paper}")
        if len(kept) < len(made):
            told.append(f"{len(made) - len(kept)} of {len(made)} settings left out")
        first, *_, last = self.seeds * 2  # one seed is the first and the last
        in_a_row = self.seeds == tuple(range(first, last + 1))
        seeds = f"{first} to {last}" if in_a_row else ", ".join(map(str, self.seeds))
        seeds = f"seeds {seeds}" if len(self.seeds) > 1 else f"seed {first}"
        printed = "supposed of" if self.supposed else "in"
        count = f" ({self.paper_seeds} {printed} the paper)"
        count = "" if len(self.seeds) == self.paper_seeds else count
        shown = ", ".join(told) or "the paper's setting, where it gives one"
        words = [f"{self.name.capitalize()} profile, {seeds}{count}: {shown}."]
        if {ours.dataset for ours in kept.values()} - {paper.dataset for paper in made}:
            words.append("These numbers show that the code works, not whether the paper's hold.")
        return " ".join([*words, self.note]).rstrip()


def sizes(
    settings: tuple[Setting, ...],
    quick: Make,
    small: Make,
    seeds: tuple[int, int, int],
    paper_seeds: int,
    note: str = "",
    supposed: bool = False,
) -> dict[str, Profile]:
    """The three profiles of a page: `quick` on data that needs no download, `small` on the paper's
    data with less of it, `paper` in the exact setting.  `seeds`: how many each runs.
    """
    makes = (quick, small, smaller())
    return {
        name: Profile(name, settings, tuple(range(1, count + 1)), paper_seeds, make, note, supposed)
        for name, make, count in zip(PROFILES, makes, seeds, strict=True)
    }


def _span(name: str, settings: Iterable[Setting]) -> str:
    """The different values of a field: "20", "20 and 100", "8 to 100"."""
    found = set()
    for setting in settings:
        told = vars(setting) | vars(setting.schedule)
        told["training examples"] = setting.images or DATASETS[setting.dataset].examples
        found.add(told[name])
    forms = {int: ",", float: "g"}
    words = [format(x, forms.get(type(x), "")) for x in sorted(found)]
    if len(words) > 2 and not isinstance(next(iter(found)), str):
        return f"{words[0]} to {words[-1]}"
    return " and ".join(words)
