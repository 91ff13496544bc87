"""How much of a paper's experiment a page runs, and the sentence that says so."""

from dataclasses import dataclass, replace

from pfl_lib.errors import BadInput


@dataclass(frozen=True)
class Profile:
    """One size of a paper's experiment: which data, how many clients, rounds and seeds.

    `quick` runs on data that needs no download, `small` on the paper's data with less of it,
    `paper` is the exact setting.  `data` and `differs` are the words for the banner: what the data
    are, and what else is not as in the paper.  `paper_seeds` is the number of seeds the paper
    averages.
    """

    name: str
    dataset: str
    data: str
    images: int | None
    rounds: int
    clients: int
    seeds: tuple[int, ...]
    paper_seeds: int
    differs: str = ""

    def with_seeds(self, count: int) -> "Profile":
        """The same profile with seeds 1 to `count`."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadInput(
                f"seeds {count!r}: give a whole number, 1 or more; seeds 1 to that number are run"
            )
        return replace(self, seeds=tuple(range(1, count + 1)))

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
        """One or two sentences for the top of a page: what it shows, and how that differs from the
        paper.
        """
        seeds = self.seed_words
        if len(self.seeds) != self.paper_seeds:
            seeds += (
                " (the paper"
                f" {'shows one' if self.paper_seeds == 1 else f'averages {self.paper_seeds}'})"
            )
        shown = (
            f"{self.name.capitalize()} profile: {self.data}, {self.clients} clients, {self.rounds}"
            f" rounds, {seeds}."
        )
        return f"{shown} {self.differs}".strip()
