"""What the tests of pages share: every notebook's parameters, and its cells run in this process."""

from collections.abc import Sequence

from pfl_lib.pages import parameters

TYPES = {name: field.annotation for name, field in parameters.Settings.model_fields.items()}
DEFAULTS = {"profile": "quick", "seeds": 0, "data_dir": "", "results_dir": "", "jobs": 0}
DEFAULTS |= {"device": "auto", "plots_only": False}


def settings(own_types=None, **changed) -> parameters.Settings:
    """`parameters.settings` on the names of a notebook whose parameter cell declares the usual ones
    and `own_types`.
    """
    return parameters.settings(
        {"__annotations__": {**TYPES, **(own_types or {})}, "In": [], **DEFAULTS, **changed}
    )


def run_cells(cells: Sequence, times: int = 1, **given) -> None:
    """Run code cells, the first of which holds the parameters, with these values of them, so many
    times in one namespace: a kernel takes seconds to start."""
    first, *others = (cell.source for cell in cells)
    namespace: dict = {"__name__": "__main__"}
    for _ in range(times):
        exec(first, namespace)
        namespace |= given
        for source in others:
            exec(source, namespace)
