"""Who holds which labels: turn distribution, parameter, number of clients and seed."""

from functools import cache

from pfl_lib import data, partitions
from pfl_lib.display import partition as drawing
from pfl_lib.display import play
from pfl_lib.errors import BadInput, whole
from pfl_lib.partitions import Classes, Dirichlet, Dominant, LabelSkew, Latent, Recipe, Shards

MOST, CLIENTS, EXAMPLES = 50, 10, 80  # a client's examples, where the recipe asks for a number
DOMINANT = "dominant classes, share {} (pFedLA, non-IID.2)"

RECIPES: dict[str, Recipe] = {
    # C first: under A all clients hold the same, which is a plain square.
    **{f"{letter} (WAFFLE)": LabelSkew(letter) for letter in ("C", "A", "B", "A*", "B*")},
    **{f"{k} shards a client (FedFomo)": Shards(k) for k in (1, 2, 3, 5)},
    **{f"{k} latent groups (FedFomo)": Latent(k) for k in (2, 3, 5, 10)},
    **{f"{k} classes a client (pFedLA, non-IID.1)": Classes(k, EXAMPLES) for k in (1, 2, 4, 8)},
    **{DOMINANT.format(x): Dominant(2, x, EXAMPLES) for x in (0.3, 0.5, 0.8, 0.95)},
    **{f"Dirichlet, alpha {alpha}": Dirichlet(alpha) for alpha in (0.1, 0.3, 1.0, 10.0)},
}


def partition(
    dataset: str = "digits", clients: int = CLIENTS, seed: int = 1, data_dir: str | None = None
) -> play.Explorer:
    """Partitions of a data set of images: in JupyterLab distribution, number of clients and seed
    can be turned; a page that is kept has a picture for each distribution, with this number of
    clients and this seed.

    What a distribution cannot serve is told in its own sentence.  Raises BadInput for a data set
    that is not there, and for numbers that are none.
    """
    whole("clients", clients, 1, MOST)
    whole("seed", seed)
    held = data.load(dataset, data_dir)

    @cache
    def made(name: str, clients: int, seed: int) -> partitions.Partition | str:
        try:
            return partitions.make(RECIPES[name], held, clients, seed)
        except BadInput as error:
            return f"This cannot be made: {error}."

    def draw(figure, *choice) -> None:
        if not isinstance(of := made(*choice), str):
            drawing.draw(figure, held, of)

    def says(*choice) -> str:
        of = made(*choice)
        told = of if isinstance(of, str) else drawing.says(held, of)
        return f"{partitions.called(RECIPES[choice[0]])}: {told}"

    def widgets() -> dict[str, object]:
        import ipywidgets

        count = ipywidgets.IntSlider(clients, 1, MOST, continuous_update=False)
        return {"distribution": [*RECIPES], "clients": count, "seed": ipywidgets.IntText(seed)}

    there = [name for name in RECIPES if not isinstance(made(name, clients, seed), str)]
    if not there:
        raise BadInput(f"dataset {held.name!r}: no distribution that is shown here fits its labels")
    controls = {"distribution": there, "clients": [clients], "seed": [seed]}
    title = f"{held.name}: who holds which labels"
    return play.explorer(play.Pictures(draw, says, title), controls, widgets)
