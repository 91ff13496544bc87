"""What pictures to turn by hand share: on a page a button that plays the frames of a slider, in
JupyterLab the same as widgets, and the column of controls above their picture.
"""

from collections.abc import Sequence

BUTTON = '<button type="button" class="play">play</button>'
SCRIPT = (
    "const play=root.querySelector('.play');let timer=null;"
    "function rest(){clearInterval(timer);timer=null;play.textContent='play';}"
    "play.addEventListener('click',()=>{if(timer)return rest();"
    "if(range.value===range.max){range.value=0;range.dispatchEvent(new Event('input'));}"
    "play.textContent='pause';"
    "timer=setInterval(()=>{if(Number(range.value)>=Number(range.max))return rest();"
    "range.value=Number(range.value)+1;range.dispatchEvent(new Event('input'));},350);});"
)
"""For a script that calls the figure `root` and its range input `range`."""


def widgets(rounds: tuple[int, ...]):
    """The same in JupyterLab: a slider over the places of `rounds`, a play button linked to it, and
    the two side by side, with the number of the round.
    """
    import ipywidgets

    last = len(rounds) - 1
    slider = ipywidgets.SelectionSlider(
        options=[(str(r), place) for place, r in enumerate(rounds)],
        value=last,
        description="round",
    )
    play = ipywidgets.Play(min=0, max=last, value=last, interval=350, description="play")
    play.observe(lambda change: setattr(slider, "index", change["new"]), "value")
    slider.observe(lambda change: setattr(play, "value", change["new"]), "index")
    moves = ipywidgets.HBox([play, slider], layout={"flex_flow": "row wrap"})  # in narrow windows
    return slider, moves


def column(controls: Sequence, view):
    """Controls above the picture that they draw, no wider than the notebook: what is, scrolls."""
    import ipywidgets

    for control in controls:
        control.layout.max_width = "100%"
    view.layout.overflow = "auto"
    return ipywidgets.VBox([*controls, view])
