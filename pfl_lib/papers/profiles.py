"""How much of a paper's experiment a page runs, and the sentence that says so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from pfl_lib.data import DATASETS
from pfl_lib.errors import BadInput
from pfl_lib.papers.settings import Setting

PROFILES = ("quick", "small", "paper")
Make = Callable[[Setting], Setting | None]
"""A setting as a profile runs it; None where the profile leaves it out."""


def as_printed(setting: Setting) -> Setting:
    """The paper's own setting: nothing is made smaller."""
    return setting


def smaller(
    rounds: int | None = None, images: int | None = None, dataset: str | None = None
) -> Callable[[Setting], Setting]:
    """A function that makes a setting smaller: so many rounds and training images at most, another
    data set.
    """

    def make(setting: Setting) -> Setting:
        most = [count for count in (setting.images, images) if count is not None]
        setting = replace(setting, images=min(most, default=None))
        if dataset is not None:
            setting = replace(setting, dataset=dataset)
        if rounds is not None:
            setting = setting.scheduled(rounds=min(rounds, setting.schedule.rounds))
        return setting

    return make


def only(keep: Callable[[Setting], bool], make: Make) -> Make:
    """`make` for the settings to keep; the others are left out."""
    return lambda setting: make(setting) if keep(setting) else None


@dataclass(frozen=True)
class Profile:
    """One size of a paper's experiment.

    `quick` runs on data that needs no download, `small` on the paper's data with less of it,
    `paper` is the exact setting.  `settings` are the paper's own; `make` makes one of them smaller,
    or gives None where this profile leaves it out (`only`): a quick page shows that the code works,
    for which a few settings of each kind are enough.
    `data` are the words for what the data are, `differs` for what is not as in the paper beside
    what the banner counts: data set, images, clients, rounds and seeds.  `paper_seeds` is the
    number of seeds that the paper averages; with `seeds_unknown` the paper does not say, and the
    number is our reading.
    """

    name: str
    data: str
    seeds: tuple[int, ...]
    paper_seeds: int
    settings: tuple[Setting, ...]
    make: Make = as_printed
    differs: str = ""
    seeds_unknown: bool = False

    def with_seeds(self, count: int) -> "Profile":
        """The same profile with seeds 1 to `count`."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadInput(
                f"seeds {count!r}: give a whole number, 1 or more; seeds 1 to that number are run"
            )
        return replace(self, seeds=tuple(range(1, count + 1)))

    def with_rounds(self, rounds: int) -> "Profile":
        """The same profile with so many rounds."""
        make = self.make

        def shorter(setting: Setting) -> Setting | None:
            made = make(setting)
            return None if made is None else made.scheduled(rounds=rounds)

        return replace(self, make=shorter)

    @property
    def datasets(self) -> list[str]:
        """The data sets of all settings, as they are run."""
        return list(dict.fromkeys(setting.dataset for setting in self.made))

    @property
    def made(self) -> list[Setting]:
        """The settings that this profile runs, as it makes them."""
        return [made for setting in self.settings if (made := self.make(setting)) is not None]

    @property
    def dataset(self) -> str:
        """The data set of all settings, as they are run; fails where they have several, as do
        `clients` and `rounds`.
        """
        return self._one("dataset")

    @property
    def clients(self) -> int:
        """The number of clients."""
        return self._one("clients")

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self._one("rounds")

    @property
    def seed_words(self) -> str:
        """ "seed 1", "seeds 1 to 5" or "seeds 1, 4"."""
        first, last = self.seeds[0], self.seeds[-1]
        if len(self.seeds) == 1:
            return f"seed {first}"
        if self.seeds == tuple(range(first, last + 1)):
            return f"seeds {first} to {last}"
        return "seeds " + ", ".join(map(str, self.seeds))

    @property
    def banner(self) -> str:
        """Sentences for the top of a page: what it shows, and how that differs from the paper."""
        seeds = self.seed_words
        if len(self.seeds) != self.paper_seeds and not self.seeds_unknown:
            seeds += (
                " (the paper"
                f" {'shows one' if self.paper_seeds == 1 else f'averages {self.paper_seeds}'})"
            )
        run = self.made
        parts = (
            [self.data, _all("clients", run), _all("rounds", run), seeds] if run else [self.data]
        )
        shown = f"{self.name.capitalize()} profile: {', '.join(parts)}."
        return " ".join(filter(None, [shown, self._made_smaller(run), self.differs]))

    def _made_smaller(self, run: list[Setting]) -> str:
        """What the paper has more of, what is left out, and that other data answer nothing."""
        words = [
            _all(what, self.settings)
            for what in ("rounds", "clients", "training examples")
            if _values(what, self.settings) != _values(what, run)
        ]
        known = set(self.settings)
        left = sum(self.make(setting) is None for setting in known)
        other = not {s.dataset for s in run} <= {s.dataset for s in self.settings}
        return " ".join(
            [f"The paper has {' and '.join(words)}."] * bool(words)
            + [f"{left} of its {len(known)} settings are left out."] * bool(left)
            + ["These numbers show that the code works, not whether the paper's hold."] * other
        )

    def _one(self, what: str) -> Any:
        found = {_value(what, setting) for setting in self.made}
        if len(found) != 1:
            raise BadInput(f"the {self.name} profile has several {what}: ask a setting for its own")
        return found.pop()


def _value(what: str, setting: Setting) -> Any:
    if what == "training examples":
        return setting.images or DATASETS[setting.dataset].examples
    return setting.schedule.rounds if what == "rounds" else getattr(setting, what)


def _values(what: str, settings: Iterable[Setting]) -> list[int]:
    """The different numbers of clients, rounds or training examples, in ascending order."""
    return sorted({_value(what, setting) for setting in settings})


def _all(what: str, settings: Iterable[Setting]) -> str:
    """ "1 round", "15 and 100 clients" or "2 to 10 rounds"."""
    numbers = [f"{number:,}" for number in _values(what, settings)]
    words = " and ".join(numbers) if len(numbers) < 3 else f"{numbers[0]} to {numbers[-1]}"
    return f"{words} {what.removesuffix('s') if numbers == ['1'] else what}"
