"""FedBN (Li et al. 2021): normalisation stays with the clients, all else is averaged."""

from dataclasses import dataclass

from pfl_lib.errors import BadInput, check_settings, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import partial
from pfl_lib.methods.fedavg import WEIGHTING
from pfl_lib.rows import Rows, as_kept, copies, models_of


@dataclass(frozen=True)
class FedBN:
    """FedBN, Algorithm 1: FedAvg, but clients keep their norms' parameters and running statistics.

    * Norms are found by their type (BatchNorm, GroupNorm, LayerNorm, ...), not by a name that
      holds "bn", as the authors' code finds them.  A network without norms is refused.
    * `weighting`: "size" as FedAvg's default, or "uniform", as the authors' Algorithm 1 and code;
      pFedLA's clients are equally large, where both are one.
    """

    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "fedbn", "FedBN", 1
    served = as_kept
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        """All clients' models; BadInput where the network has no norm."""
        if not any(layer.norm for layer in fed.layout.layers):
            raise BadInput(
                f"{self.title} keeps the norms of a network with its clients, and this one has"
                " none: choose a model with norms, such as pfedla_cnn-norm, or the method fedavg"
            )
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        shared = [layer for layer in fed.layout.layers if not layer.norm]
        trained, _ = fed.train(models_of(state, clients), r, clients, uploaded=shared)
        return partial.averaged(fed, state, clients, trained, shared, self.weighting)
