"""What the tests of pages share: the parameters that every notebook declares."""

from pfl_lib.pages import parameters

TYPES = {name: field.annotation for name, field in parameters.Settings.model_fields.items()}
DEFAULTS = {
    "profile": "quick",
    "seeds": 0,
    "data_dir": "",
    "results_dir": "",
    "jobs": 0,
    "device": "auto",
    "plots_only": False,
}


def settings(own_types=None, **changed) -> parameters.Settings:
    """`parameters.settings` on the names of a notebook whose parameter cell declares the usual ones
    and `own_types`.
    """
    return parameters.settings(
        {"__annotations__": {**TYPES, **(own_types or {})}, "In": [], **DEFAULTS, **changed}
    )
