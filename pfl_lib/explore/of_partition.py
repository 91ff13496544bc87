"""Who holds which labels: turn the distribution, the number of clients, the seed and a parameter,
and see the label matrix.
"""

import html
from collections.abc import Sequence

import numpy as np

from pfl_lib import data, partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display import matrices, player
from pfl_lib.errors import BadInput
from pfl_lib.explore.explorer import Explorer, choices
from pfl_lib.partitions import Classes, Dirichlet, Dominant, LabelSkew, Latent, Recipe, Shards

CLIENTS, EXAMPLES = 10, 80  # a client's examples, where the recipe asks for a number
WIDE, HIGH = 300, 260  # of the picture, in the units of its SVG

PARAMETERS = {
    # C first: under A all clients hold the same, which is a plain square.
    "A, B, C, A*, B* (WAFFLE)": ("letter", ("C", "A", "B", "A*", "B*")),
    "shards (FedFomo)": ("shards a client", (1, 2, 3, 5)),
    "latent groups (FedFomo)": ("groups", (2, 3, 5, 10)),
    "some classes (pFedLA, non-IID.1)": ("classes a client", (1, 2, 4, 8)),
    "dominant classes (pFedLA, non-IID.2)": ("share of them", (0.3, 0.5, 0.8, 0.95)),
    "Dirichlet": ("alpha", (0.1, 0.3, 1.0, 10.0)),
}
"""The families that are shown: what their parameter is called, and its values."""


def recipe(family: str, parameter: object) -> Recipe:
    """A family's recipe with this value of its parameter."""
    made = {
        "A": lambda: LabelSkew(parameter),
        "shards": lambda: Shards(per_client=parameter),
        "latent": lambda: Latent(groups=parameter),
        "some": lambda: Classes(per_client=parameter, examples=EXAMPLES),
        "dominant": lambda: Dominant(classes=2, share=parameter, examples=EXAMPLES),
        "Dirichlet": lambda: Dirichlet(alpha=parameter),
    }
    return made[family.split()[0].rstrip(",")]()


def partition(
    dataset: str = "digits", clients: int = CLIENTS, seed: int = 1, data_dir: str | None = None
) -> Explorer:
    """Partitions of a data set of images: in JupyterLab distribution, parameter, number of clients
    and seed can be turned; a page that is kept has a picture for each distribution and parameter,
    with this number of clients and this seed.

    What a distribution cannot serve is told in its own sentence.  Raises BadInput for a data set
    that is not there.
    """
    held = data.load(dataset, data_dir)
    first = next(iter(PARAMETERS))
    _, words = label_matrix(held, first, PARAMETERS[first][1][0], clients, seed)
    return Explorer(
        words, lambda: _choices(held, clients, seed), lambda: _widget(held, clients, seed)
    )


def label_matrix(
    dataset: Dataset, family: str, parameter: object, clients: int, seed: int
) -> tuple[str, str]:
    """Who holds which labels as SVG, and its words; "" and the reason where the recipe cannot serve
    so many clients.
    """
    try:
        of = recipe(family, parameter)
        made = partitions.make(of, dataset, clients, seed)
    except BadInput as error:
        return "", f"This cannot be made: {error}."
    counts = made.label_matrix(dataset)
    labels = (counts > 0).sum(1)
    words = (
        f"{partitions.called(of)}: {clients} clients hold {_span(counts.sum(1))} training examples"
        f" of {_span(labels)} labels each; most of one label: {int(counts.max()):,}."
    )
    return _svg(counts.numpy().astype(float), words), words


def _span(numbers) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _svg(counts: np.ndarray, words: str) -> str:
    """A row for each client and a column for each label: the darker, the more examples."""
    clients, classes = counts.shape
    image = matrices.pixels(counts, (0.0, float(counts.max()) or 1.0))
    ticks = ""
    for client in range(0, clients, max(1, -(-clients // 12))):
        y = (client + 0.5) * HIGH / clients + 4
        ticks += f'<text x="34" y="{y:.1f}" text-anchor="end">{client}</text>'
    for label in range(0, classes, max(1, -(-classes // 12))):
        x = 40 + (label + 0.5) * WIDE / classes
        ticks += f'<text x="{x:.1f}" y="{HIGH + 14}" text-anchor="middle">{label}</text>'
    return (
        f'<svg role="img" aria-label="{html.escape(words)}" viewBox="0 0 {WIDE + 46} {HIGH + 34}"'
        f' style="width:min(100%,{WIDE + 120}px);height:auto" font-size="11" fill="currentColor">'
        f'<image x="40" y="0" width="{WIDE}" height="{HIGH}" preserveAspectRatio="none"'
        f' style="image-rendering:pixelated" href="data:image/png;base64,{image}"/>'
        f'<rect x="40" y="0" width="{WIDE}" height="{HIGH}" fill="none" stroke="#888"/>{ticks}'
        f'<text x="{40 + WIDE / 2}" y="{HIGH + 30}" text-anchor="middle">label</text>'
        f'<text transform="translate(10 {HIGH / 2}) rotate(-90)" text-anchor="middle">client'
        "</text></svg>"
    )


def _piece(drawn: tuple[str, str]) -> str:
    image, words = drawn
    return f"{image}<p>{html.escape(words)}</p>"


def _options(parameters: Sequence[object], name: str) -> list[tuple[str, object]]:
    return [(f"{name} {value}", value) for value in parameters]


def _choices(dataset: Dataset, clients: int, seed: int) -> str:
    options = []
    for family, (name, values) in PARAMETERS.items():
        for label, value in _options(values, name):
            drawn = label_matrix(dataset, family, value, clients, seed)
            if drawn[0]:
                options.append((f"{family}: {label}", _piece(drawn)))
    title = f"{dataset.name}: who holds which labels, {clients} clients, seed {seed}"
    return choices("partition", "distribution", options, title)


def _widget(dataset: Dataset, clients: int, seed: int):
    import ipywidgets

    def options() -> list[tuple[str, object]]:
        name, values = PARAMETERS[family.value]
        return _options(values, name)

    family = ipywidgets.Dropdown(options=list(PARAMETERS), description="distribution")
    parameter = ipywidgets.Dropdown(options=options(), description="parameter")
    count = ipywidgets.IntSlider(clients, 1, 50, description="clients", continuous_update=False)
    drawn_by = ipywidgets.IntText(seed, description="seed")
    view = ipywidgets.HTML()

    def fill(change) -> None:
        parameter.options = options()

    def draw(change=None) -> None:
        chosen = (family.value, parameter.value, count.value, drawn_by.value)
        view.value = _piece(label_matrix(dataset, *chosen))

    family.observe(fill, "value")
    for control in (family, parameter, count, drawn_by):
        control.observe(draw, "value")
    draw()
    return player.column([family, parameter, count, drawn_by], view)
