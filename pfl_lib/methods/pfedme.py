"""pFedMe (T Dinh et al. 2020): clients' models kept near a shared one by a Moreau envelope."""

from dataclasses import dataclass, replace

from pfl_lib.errors import ABOVE_0, NOT_NEGATIVE, BadInput, check_settings, flag, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import MOST, Schedule
from pfl_lib.rows import (
    Batch,
    Gradient,
    Rows,
    average,
    copies,
    descend,
    each_sends_a_model,
    personal,
    personal_models,
    uniform,
    with_models,
)


@dataclass(frozen=True)
class PFedMe:
    """pFedMe, Algorithm 1.  At each mini-batch D a client, from the server's x at first,
        K times:  theta <- theta - lr (grad f(theta; D) + lambda (theta - w)),
        once:     w <- w - eta lambda (w - theta);
    server: x <- (1 - beta) x + beta mean w.  Served is theta, the client's personalised model.

    * `lam` is lambda.  lambda 15, `steps` K 5 and beta 1 are the defaults of FedFomo's code; eta
      0.005 is that of pFedMe's code on MNIST.
    * The schedule's learning rate is the inner one, which follows the loss (FedFomo's code: 0.09),
      and with it go its decay, weight decay and momentum.  lr (lambda + weight decay) must stay
      below 2 (1 + momentum), and eta lambda below 2: beyond, steps along lambda alone grow.
    * theta goes on from batch to batch, as in pFedMe's code; `restart=True` starts it from w at
      each batch.  The paper asks for theta near the minimum and leaves open from where.
    * A client that has not taken part is served x as it was at the start.  In pFedMe's code all
      clients train in each round and participation chooses who is averaged; here only participants
      train.  Averages are uniform, as in the algorithm.
    * BatchNorm's statistics are those met at theta: clients are served their own, x their mean.
    """

    lam: float = setting(15.0, *NOT_NEGATIVE)
    steps: int = setting(5, whole, 1, MOST)
    eta: float = setting(0.005, *ABOVE_0)
    beta: float = setting(1.0, *ABOVE_0)
    restart: bool = setting(False, flag)

    name, title, version = "pfedme", "pFedMe", 1
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        """K gradients an example."""
        return self.steps * passes

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        # Once x's statistics were moved by beta too, below 0 where it is large.
        return {"statistics of x": 2 if statistics and self.beta != 1 else 1}

    def start(self, fed: Federation) -> Rows:
        """BadInput where a step along lambda alone would diverge."""
        work = fed.schedule
        both = "lam and weight decay" if work.weight_decay else "lam"
        for name, step, of, pull, most in (
            ("lr", work.lr, both, self.lam + work.weight_decay, 2 + 2 * work.momentum),
            ("eta", self.eta, "lam", self.lam, 2),
        ):
            if step * pull >= most:
                raise BadInput(
                    f"{name} {step:g} times {of} {pull:g} is {step * pull:g}, and pFedMe"
                    f" diverges from {most:g} on: give a smaller {name} or lam"
                )
        return fed.initial() | personal(copies(fed.initial(), len(fed)))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        rows = copies(state, len(clients))
        rows["personal"] = rows["theta"]
        trained, _ = fed.train(rows, r, clients, self._step, trained=("theta", "personal"))
        weights = uniform(len(clients))
        moved = average(weights, trained)
        moved["theta"] = state["theta"] + self.beta * (moved["theta"] - state["theta"])
        own = {"theta": trained["personal"], "statistics": trained["statistics"]}
        after = moved | personal(with_models(personal_models(state), clients, own))
        return after, each_sends_a_model(weights, clients, len(fed))

    def served(self, fed: Federation, state: Rows) -> Rows:
        return personal_models(state)

    def _step(self, rows: Rows, gradient: Gradient, batch: Batch) -> None:
        w, theta = rows["theta"], rows["personal"]
        if self.restart:
            theta.copy_(w)
        for _ in range(self.steps):
            loss = gradient(theta, batch, rows["statistics"])
            descend(rows, "personal", loss + self.lam * (theta - w), batch)
        plain = replace(batch, lr=self.eta, momentum=0.0, weight_decay=0.0)
        descend(rows, "theta", self.lam * (w - theta), plain)
