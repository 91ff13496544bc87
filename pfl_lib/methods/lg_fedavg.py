"""LG-FedAvg (Liang et al. 2020): lower layers stay with the clients, upper ones are averaged."""

from dataclasses import dataclass

from pfl_lib.engine.layout import Layer, Layout
from pfl_lib.errors import check_settings, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import partial
from pfl_lib.methods.fedavg import WEIGHTING
from pfl_lib.progress import tell
from pfl_lib.rows import Rows, as_kept, copies, models_of


@dataclass(frozen=True)
class LGFedAvg:
    """LG-FedAvg, Algorithm 1, with the prediction loss alone: both parts train together on it, then
    the server averages the upper, global part.

    * `local`: the layers that stay, by name, such as ("conv1", "conv2").  None: all before the
      first fully connected layer behind the convolutions (what has three dimensions or more), or,
      in a network without convolutions, all but the last layer (our choice).  The authors' CIFAR-10
      script averages "the last two" of a list that ends with the convolutions, the lower end.
    * Everybody starts from the initial model; the authors start from one that FedAvg has trained.
    * `weighting`: "size" (Algorithm 1) or "uniform" (the authors' code).
    """

    local: tuple[str, ...] | None = setting(None, partial.check_names)
    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "lg_fedavg", "LG-FedAvg", 1
    served = as_kept
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        """All clients' models; BadInput where `local` names no layer."""
        if len(self._shared(fed)) == len(fed.layout.layers):
            tell(f"{self.name} shares every layer of this network: it is FedAvg")
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, shared = fed.participants(r), self._shared(fed)
        trained, _ = fed.train(models_of(state, clients), r, clients, uploaded=shared)
        return partial.averaged(fed, state, clients, trained, shared, self.weighting)

    def _shared(self, fed: Federation) -> list[Layer]:
        local = representation(fed.layout) if self.local is None else self.local
        return partial.shared_layers(fed, local)


def representation(layout: Layout) -> list[str]:
    """Layers below the fully connected ones; without a convolution, all layers but the last."""
    names = [layer.name for layer in layout.layers]
    kernels = [b.start for b in layout.parameters if len(b.shape) > 2]
    if not kernels:
        return names[:-1]
    behind = 1 + max(
        k for k, of in enumerate(layout.layers) for start in kernels if of.start <= start < of.stop
    )
    while behind < len(names) and layout.layers[behind].norm:
        behind += 1
    return names[:behind]
