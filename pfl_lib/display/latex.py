"""Tables as LaTeX, for the package booktabs."""

import math
from collections.abc import Sequence

from pfl_lib.display.table_format import NONE, written


def escape(words: str) -> str:
    """Words in which LaTeX's own signs are escaped."""
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in words)


def number(words: str) -> str:
    """A number as a table writes it ("−0.12", "99.1 ± 0.2", "–"), for LaTeX."""
    return words.replace(" ± ", r" $\pm$ ").replace("−", "$-$").replace(NONE, "--")


def spread(value: float, std: float = math.nan) -> str:
    """ "99.12 ± 0.20", or the value alone where there is no spread."""
    return written(value) if math.isnan(std) else f"{written(value)} ± {written(std)}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table: words to the left in the first column, all else to the right."""
    rows = [" & ".join(number(escape(str(word))) for word in line) + r" \\" for line in lines]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            " & ".join(map(escape, head)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            "\\end{tabular}\n",
        ]
    )
