"""FedFomo (Zhang et al. 2021): clients weigh models by how they lower their validation loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import A_SHARE, BadInput, check_settings, choose, flag, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows, as_kept, copies, finite_rows, models_of, with_models

NORMS = {"l2": 2, "l1": 1}


@dataclass(frozen=True)
class FedFomo:
    """FedFomo, section 3.1 and appendices A.1 and A.6, on the clients' validation split.

    A round: client i trains from its reference theta_i and uploads; it gets its own trained model
    and n - 1 others, weighs each (Eq. 3) and mixes them (Eq. 5 and 13):
        w_n = (L_i(theta_i) - L_i(theta_n)) / |theta_n - theta_i|,
        theta_i <- theta_i + sum_n w*_n (theta_n - theta_i),   w* = max(w, 0) / sum max(w, 0).
    Where no w_n is above 0 the client goes back to its reference ("early stopping").

    * The server sends each client the models that it has the highest affinity to, P_ij; with chance
      `epsilon` - `decay` (r - 1), at least 0, a slot goes to a model drawn at random instead
      [epsilon 0.3, "0.05 decay each round": A.6; subtracted, as the released code does].
      P starts as the identity, and w, negative too, is added to what was downloaded (section 3.1).
    * `n` counts the client's own model, which it need not download: the server sends "the top M
      values" of P, whose diagonal of 1 puts one's own first, and the released code counts so too.
      The tables' words, "5 clients downloaded", may mean five others: `counts_own=False`.
      Only models uploaded this round can be sent; all of them where fewer clients take part.  With
      `keeps` the server has the last upload of every client to send, of earlier rounds too: P is
      K x K for K clients, of whom N are active, and the paper does not say.
    * The reference is the model after the client's last federated update, before its last local
      training [released code, "first_model"].  The federated update ends the round here, and opens
      the next one in the released code, which adds one after the last round: where all clients
      take part it is the same.  With some, the released code's clients meet models of the round
      before, and here those of their own round.
    * `warm_up`: before the first round every client trains one local epoch; in the released code,
      where a part of the clients is drawn, this takes the first round's place.  Else a client's
      first reference is the initial model.
    * `norm`: the paper writes |.|, read as the Euclidean distance; "l1" is the released default.
    * `affinity`: "signed" adds w (paper); "normalised" adds w / |sum w| [released code].
    * L_i is the mean over validation examples, without augmentation; the released code augments
      them.  It also mixes in averages of clusters of clients and of all [its README's commands; not
      in the paper], which this method does not.
    * A candidate whose loss, distance or running statistics are not finite, or at distance 0, has
      weight 0.  One whose loss or statistics are not finite falls in P to 1 below the lowest of the
      client's others and ranks last there until P moves again; with weight 0 alone it would rank
      before finite models that do not help [our choice].
    * BatchNorm's running statistics are mixed as parameters are, and are in no distance.
    """

    n: int = setting(5, whole, 1)
    epsilon: float = setting(0.3, *A_SHARE)
    decay: float = setting(0.05, *A_SHARE)
    norm: str = setting("l2", choose, NORMS)
    affinity: str = setting("signed", choose, ("signed", "normalised"))
    counts_own: bool = setting(True, flag)
    keeps: bool = setting(False, flag)
    warm_up: bool = setting(False, flag)

    name, title, version = "fedfomo", "FedFomo", 1
    later = ("counts_own", "keeps", "warm_up")
    served = as_kept
    __post_init__ = check_settings

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """The warm-up's rate was once that of round 1 divided by the decay."""
        return {"warm-up": 2 if self.warm_up and schedule.lr_decay != 1 else 1}

    def start(self, fed: Federation) -> Rows:
        """BadInput where n is above the number of clients, or a client cannot be validated on."""
        most = len(fed) - 1 + self.counts_own
        if self.n > most:
            why = f"there are {len(fed)} clients, so give a whole number from 1 to {most}"
            raise BadInput(f"n {self.n}: {why}, as {type(self).__name__}(n={most})")
        check_validation(fed)
        models = copies(fed.initial(), len(fed))
        if self.warm_up:
            models, _ = fed.train(models, 0, range(len(fed)), epochs=1)
        state = {**models, "affinity": torch.eye(len(fed), dtype=torch.float64)}
        if self.keeps:
            state |= {f"uploaded {name}": matrix for name, matrix in models.items()}
            state["has uploaded"] = torch.zeros(len(fed), dtype=torch.bool)
        return state

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        references = models_of(state, clients)
        trained, _ = fed.train(references, r, clients)
        sendable, uploads, kept = clients, trained, {}
        if self.keeps:
            earlier = {name: state[f"uploaded {name}"] for name in trained}
            uploads = with_models(earlier, clients, trained)
            there = state["has uploaded"].index_fill(0, torch.tensor(clients), True)
            sendable = there.nonzero()[:, 0].tolist()
            kept = {f"uploaded {name}": matrix for name, matrix in uploads.items()}
            kept["has uploaded"] = there
            uploads = models_of(uploads, sendable)

        mixed = {name: torch.empty_like(matrix) for name, matrix in trained.items()}
        shares = torch.zeros(len(fed), len(fed), dtype=torch.float64)
        affinity, sent = state["affinity"].clone(), 0
        for k, client in enumerate(clients):
            available = [i for i in sendable if i != client]
            slots, epsilon = self.n - self.counts_own, self.exploration(r)
            random = generator(fed.seed, "downloads", r, client)
            others = downloads(state["affinity"][client], available, slots, epsilon, random)
            near = sorted([client, *others])
            places = [sendable.index(i) for i in near]
            reference = models_of(references, [k])
            signed, lost = self._signed(fed, client, reference, models_of(uploads, places))
            share = normalised(signed)
            shares[client, near] = share
            affinity[client, near] += signed if self.affinity == "signed" else relative(signed)
            demote(affinity[client], [i for i, gone in zip(near, lost, strict=True) if gone])
            sent += len(others)
            # Only models that count, so that one which diverged leaves the others alone.
            counted = [place for place, weight in zip(places, share, strict=True) if weight > 0]
            for name, matrix in uploads.items():
                positive = share[share > 0].to(matrix)
                mixed[name][k] = positive @ matrix[counted] if counted else references[name][k]
        stopped = torch.zeros(len(fed), dtype=torch.float64)
        stopped[clients] = (shares[clients].sum(1) == 0).double()
        log = {"weights": shares, "matrices": {"affinity": affinity}, "early_stopped": stopped}
        log |= {"models_up": len(clients), "models_down": sent}
        return {**with_models(state, clients, mixed), "affinity": affinity, **kept}, log

    def exploration(self, r: int) -> float:
        """The chance of a random model in round r, from 1: 0.3, 0.25, ..., 0 from the seventh."""
        return max(self.epsilon - self.decay * (r - 1), 0.0)

    def _signed(
        self, fed: Federation, client: int, reference: Rows, candidates: Rows
    ) -> tuple[Tensor, list[bool]]:
        """Eq. 3 for one client: [m] for the m candidates; and which of them are not finite."""
        [loss], _ = fed.evaluate(reference, "validation", [client])
        losses, _ = fed.evaluate(candidates, "validation", [client] * len(candidates["theta"]))
        # An infinite variance gives a finite loss, and would be mixed in all the same.
        losses = losses.masked_fill(~finite_rows(candidates["statistics"]).cpu(), math.nan)
        [row] = reference["theta"]
        order = NORMS[self.norm]
        apart = [torch.linalg.vector_norm(theta - row, order) for theta in candidates["theta"]]
        signed = signed_weights(loss.item(), losses, torch.stack(apart).double().cpu())
        return signed, (~losses.isfinite()).tolist()


def check_validation(fed: Federation) -> None:
    """BadInput unless every client has validation examples."""
    split = fed.clients.splits.get("validation")
    if split is None or not all(map(len, split.index)):
        raise BadInput(
            "FedFomo weighs models on validation examples, and not every client has some: hold"
            " out a share of its training examples, as the paper does, by validation=0.2 (of run"
            " or from_csv), or give from_arrays validation pairs"
        )


def downloads(
    affinity: Tensor, available: Sequence[int], slots: int, epsilon: float, random: torch.Generator
) -> list[int]:
    """The clients whose models are sent: one client's row of P [N] and the numbers of those that
    have uploaded to at most `slots` of these.

    Slot by slot, with chance epsilon one drawn from those left, else the one of highest affinity
    (ties are broken at random).
    """
    shuffled = [available[k] for k in torch.randperm(len(available), generator=random).tolist()]
    left = sorted(shuffled, key=lambda i: -affinity[i].item())
    sent = []
    while left and len(sent) < slots:
        explore = torch.rand((), generator=random, dtype=torch.float32).item() < epsilon
        place = int(torch.randint(len(left), (), generator=random)) if explore else 0
        sent.append(left.pop(place))
    return sent


def demote(affinity: Tensor, lost: Sequence[int]) -> None:
    """Put, in place, the clients `lost` below all others in one client's row of P [N]."""
    others = [i for i in range(len(affinity)) if i not in lost]
    if lost and others:
        affinity[list(lost)] = affinity[list(lost)].clamp(max=affinity[others].min().item() - 1)


def signed_weights(reference_loss: float, losses: Tensor, distances: Tensor) -> Tensor:
    """Eq. 3, [m] in float64: how much the loss falls from the reference to each of m models, over
    its distance; 0 where that is 0, or where either is not finite.
    """
    losses, distances = losses.double(), distances.double()
    fall = reference_loss - losses
    known = fall.isfinite() & distances.isfinite() & (distances > 0)
    return torch.where(known, fall / torch.where(known, distances, 1.0), 0.0)


def normalised(signed: Tensor) -> Tensor:
    """Eq. 13, [m]: the positive weights as shares, which add up to 1; or zeros, where none is."""
    positive = signed.clamp(min=0)
    return positive / positive.sum() if positive.any() else positive


def relative(signed: Tensor) -> Tensor:
    """The released code's affinities: w / |sum w|, a sum below 1e-9 made 1e-9 larger."""
    total = signed.sum().abs()
    return signed / (total if total >= 1e-9 else total + 1e-9)
