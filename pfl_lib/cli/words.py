"""How the commands speak: a line at a time, numbers with their nouns."""

from collections.abc import Iterable


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def count(number: int, noun: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def has_all(line: str, words: Iterable[str]) -> bool:
    """Whether a line has all of these words in it, in capitals or not."""
    return all(word.lower() in line.lower() for word in words)


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "2 h 05 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
