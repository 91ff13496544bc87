"""FedFomo (MA): clients weigh models by averages alone (Zhang et al. 2021, appendix A.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.fedfomo import check_validation, normalised
from pfl_lib.rows import Rows, as_kept, average, copies, finite_rows, models_of, with_models


@dataclass(frozen=True)
class FedFomoMA:
    """FedFomo with model averages, Eq. 14: a model helps a client where the average without it is
    worse on the client's validation split than the average of all m models of the round.

        w_n = L_i(1/(m-1) sum_{j != n} theta_j) - L_i(1/m sum_j theta_j),
        theta_i <- theta_i + sum_n w*_n (theta_n - theta_i),   w* = max(w, 0) / sum max(w, 0),

    with theta_i on the right the client's reference, as in `FedFomo`.

    * The paper gives the weights and not how models are mixed by them without being sent.  Here the
      client returns w, and the server sends the mixture [our choice].  A client whose whole weight
      is on one model gets that model all the same.
    * Every client is sent all m + 1 averages and its mixture; the paper names no download limit.
    * Where no w_n is above 0 the client goes back to its reference.  A convex L_i has none above 0
      only where all averages are equally good: the mean of the w_n is then 0 or more.  Clients that
      are all alike thus stay at the initial model.
    * A model that is not finite is in no average [our choice].  With fewer than two finite ones
      there is nothing to leave out: a client then keeps its own trained model, if that is finite.
    """

    name, title, version = "fedfomo_ma", "FedFomo (MA)", 1
    served = as_kept

    def start(self, fed: Federation) -> Rows:
        """BadInput for one client, and where a client cannot be validated on."""
        if len(fed) < 2:
            raise BadInput("FedFomo (MA) leaves one model out of an average: give two clients")
        check_validation(fed)
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        references = models_of(state, clients)
        trained, _ = fed.train(references, r, clients)

        finite = torch.stack([finite_rows(matrix) for matrix in trained.values()]).all(0)
        sound = finite.nonzero().flatten().tolist()  # places of models that can be averaged
        m = len(sound)
        shares = torch.zeros(len(fed), len(fed), dtype=torch.float64)
        columns = [clients[place] for place in sound]
        if m > 1:
            averages = average(leave_one_out(m), models_of(trained, sound))
            for client in clients:
                losses, _ = fed.evaluate(averages, "validation", [client] * (m + 1))
                signed = torch.where(losses.isfinite(), losses - losses[0], 0.0)[1:].cpu()
                shares[client, columns] = normalised(signed.nan_to_num(0.0))
        else:
            shares[columns, columns] = 1.0

        mine = shares[clients]
        mixed = average(mine[:, clients], trained)
        stays = (mine.sum(1) == 0).nonzero().flatten().tolist()
        mixed = with_models(mixed, stays, models_of(references, stays))
        sent = len(clients) * (m + 2 if m > 1 else 0)
        log = {"weights": shares, "models_up": len(clients), "models_down": sent}
        return with_models(state, clients, mixed), log


def leave_one_out(m: int) -> Tensor:
    """Averaging weights [m + 1, m], float64: of all m models, then of all but each one."""
    all_but_one = (1 - torch.eye(m, dtype=torch.float64)) / (m - 1)
    return torch.cat([torch.full((1, m), 1 / m, dtype=torch.float64), all_but_one])
