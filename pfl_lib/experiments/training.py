"""One method on one federation, round by round: what is recorded, and what a checkpoint holds."""

import contextlib
import copy
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pfl_lib.errors import BadInput
from pfl_lib.experiments import asked, logs
from pfl_lib.experiments.made import made_with
from pfl_lib.experiments.measures import MEASURES, START, check
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import Method
from pfl_lib.results.result import Result
from pfl_lib.rows import Rows, select_rows

KEPT = (
    *("done", "seconds", "metrics", "weights", "weights_rounds", "matrices", "matrices_rounds"),
    *("bytes", "non_finite", "made_with"),
)
"""What a checkpoint holds of a run, beside the method's state."""
TAKEN = ("round", "client", "seed", "name", "method", "bytes")
"""Columns of the tables that results stand in."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch's own threads off: the papers' networks are too small for them, and sums then never
    depend on the number of cores.  Gradients on, no autocast, the CPU as default device, and no
    bfloat16 in products; on a GPU no TF32 (gradients 1 to 2 % off).
    """
    cpu = torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv, torch.backends.mkldnn.rnn
    gpu = torch.backends.cudnn, torch.backends.cuda.matmul
    kinds = gpu if torch.cuda.is_available() else ()
    with contextlib.ExitStack() as after:
        after.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        after.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":
            after.enter_context(torch.device("cpu"))
        for kind in (one for one in cpu if one.fp32_precision not in ("ieee", "none")):
            after.callback(setattr, kind, "fp32_precision", kind.fp32_precision)
            kind.fp32_precision = "ieee"
        for device in ("cpu", *(["cuda"] if kinds else [])):
            after.enter_context(torch.autocast(device, enabled=False))
        for kind in kinds:
            after.callback(setattr, kind, "allow_tf32", kind.allow_tf32)
            kind.allow_tf32 = False
        yield


class Run:
    """One method on one federation, round by round; `checkpoint()` is all that a resumed run needs.

    The served model is evaluated every `evaluate_every` rounds and after the last.  `made_with`:
    the devices, versions and processors that took part; with several of one, bits may differ.
    """

    def __init__(
        self, method: Method, fed: Federation, measures: Sequence[str] = (), evaluate_every: int = 1
    ) -> None:
        self.method, self.fed = method, fed
        self.measures, self.evaluate_every = tuple(measures), evaluate_every
        fed.private_steps.clear()
        check(self.measures, fed)
        self.state = asked.start(method, fed)
        self._steps_of_start = list(fed.private_steps)
        self.done, self.diverged, self.seconds = 0, None, 0.0
        self.metrics: list[dict[str, float]] = []
        self.weights: list[Tensor] = []
        self.weights_rounds: list[int] = []
        self.matrices: list[dict[str, Tensor]] = []
        self.matrices_rounds: list[int] = []
        self.bytes = [0.0, 0.0]
        self.non_finite: dict[int, int] = {}
        self.made_with = {name: [word] for name, word in made_with(str(fed.device)).items()}

    @property
    def finished(self) -> bool:
        return self.diverged is not None or self.done == self.fed.schedule.rounds

    def rounds(self) -> Iterator[int]:
        """Run the rounds that are left, yielding each number; stop where the loss is not finite.

        In a round that is not evaluated the loss is unknown, and the run stops where the served
        model is NaN or infinite.  It is asked for there only where a client's training or the state
        holds such a number: serving may cost as much as a round.
        """
        if START in self.measures and not self.done:
            self._evaluate(0, {name: torch.zeros(()) for name in ("models_up", "models_down")})
        while not self.finished:
            began, r = time.perf_counter(), self.done + 1
            self.fed.non_finite.clear()
            self.fed.private_steps[:] = [] if self.done else self._steps_of_start
            self.state, log = asked.next_round(self.method, self.fed, self.state, r)
            self.done = r
            weights, matrices, numbers = self._read(log, r)
            numbers |= self._private_steps()
            lost, broken = sorted(self.fed.non_finite), []
            if r % self.evaluate_every == 0 or r == self.fed.schedule.rounds:
                broken = self._evaluate(r, numbers)
            elif lost or not all(row.isfinite().all() for row in self.state.values()):
                broken = self._broken(asked.served(self.method, self.fed, self.state))
            if broken:
                self.diverged = r
            else:
                self._keep(r, weights, matrices)
            for client in lost or broken:
                self.non_finite.setdefault(client, r)
            sent = logs.bytes_in(numbers, self.fed.layout.P)
            self.bytes = [before + now for before, now in zip(self.bytes, sent, strict=True)]
            self.seconds += time.perf_counter() - began
            yield r

    def _read(self, log: Mapping[str, Any], r: int) -> tuple[Tensor | None, Rows, Rows]:
        """Weights, further matrices and numbers of a log; BadInput for odd or changed shapes."""
        try:
            weights = logs.weights_in(log, self.fed.participants(r), len(self.fed))
            matrices, numbers = logs.matrices_in(log), logs.numbers_in(log, len(self.fed))
            if weights is not None and self.weights:
                logs.check_same_shapes({"weights": self.weights[-1]}, {"weights": weights})
            if self.matrices:
                logs.check_same_shapes(self.matrices[-1], matrices)
        except logs.BadLog as error:
            asked.refuse(self.method, "round", *error.args)
        return weights, matrices, numbers

    def _private_steps(self) -> dict[str, Tensor]:
        """What an accountant needs of a round of DP-SGD, [N] each: the local steps of each client,
        "private_steps", in round 1 with those that the method's `start` took; and the chance with
        which a step draws an example, "sampling_rate", which shuffled batches have none of.
        """
        taken = self.fed.private_steps
        private = self.fed.schedule.private
        if private is None:
            return {}
        if len({noise[:3] for noise in taken}) < len(taken):  # client, purpose, round
            does = "trains a client twice in a round by the same noise, which would cancel"
            raise BadInput(f"method {self.method.name!r} {does}: train it without privacy")
        steps = torch.zeros(len(self.fed), dtype=torch.float64)
        for client, *_, count in taken:
            steps[client] += count
        rate = {"sampling_rate": self.fed.schedule.batch_size / self.fed.sizes()}
        return {"private_steps": steps} | (rate if private.sampling == "poisson" else {})

    def _keep(self, r: int, weights: Tensor | None, matrices: dict[str, Tensor]) -> None:
        """Weights [N] are kept in every round, matrices in the rounds of `logs.kept_rounds`;
        BadInput where weights are NaN though all training was finite.
        """
        rounds = self.fed.schedule.rounds
        if weights is not None:
            if not self.fed.non_finite and weights.isnan().any():
                what = "weights with NaN in its log"
                asked.refuse(self.method, "round", what, "a number for each client")
            if weights.dim() == 1 or r in logs.kept_rounds(rounds, weights.numel()):
                self.weights.append(weights)
                self.weights_rounds.append(r)
        numbers = sum(matrix.numel() for matrix in matrices.values())
        if matrices and r in logs.kept_rounds(rounds, numbers):
            self.matrices.append(matrices)
            self.matrices_rounds.append(r)

    def _evaluate(self, r: int, numbers: dict[str, Tensor]) -> list[int]:
        """Record the served model after round r, with the log's numbers; where it or its loss is
        NaN or infinite nothing is recorded, and the clients for whom it is are returned.
        """
        model, clients = asked.served(self.method, self.fed, self.state), self.fed.evaluated_clients
        if broken := self._broken(model):
            return broken
        if model["theta"].dim() == 2:
            model = {name: select_rows(matrix, clients) for name, matrix in model.items()}
        loss, accuracy = self.fed.evaluate(model, clients=clients)
        if not loss.isfinite().all():
            return [client for client, own in zip(clients, loss, strict=True) if not own.isfinite()]
        columns = {"accuracy": accuracy, "loss": loss}
        for name in self.measures:
            if name != START:
                columns |= MEASURES[name](self.fed, model, clients, r)
        if taken := ({*TAKEN, *columns} & numbers.keys()):
            what = f"{', '.join(sorted(taken))} in its log"
            asked.refuse(self.method, "round", what, "that another name: it is measured here")
        columns |= {name: value.expand(len(self.fed))[clients] for name, value in numbers.items()}
        for k, client in enumerate(clients):
            row = {name: values[k].item() for name, values in columns.items()}
            self.metrics.append({"round": r, "client": client, **row})
        return []

    def _broken(self, model: Rows) -> list[int]:
        """The evaluated clients whose model is not finite; a line tells if the method made it."""
        clients = self.fed.evaluated_clients
        finite = torch.stack([matrix.isfinite().all(-1) for matrix in model.values()]).all(0)
        broken = [i for i in clients if not (finite[i] if finite.dim() else finite)]
        if broken and not self.fed.non_finite:
            names = f"client{'s' * (len(broken) > 1)} {', '.join(map(str, broken[:5]))}"
            names += ", ..." if len(broken) > 5 else ""
            told = f"its round {self.done} gave {names} a model that is not finite"
            print(f"method {self.method.name!r}: {told}, though all training was", file=sys.stderr)
        return broken

    def checkpoint(self) -> dict[str, Any]:
        """All that a resumed run needs after the last finished round; later ones change nothing."""
        return {"state": self.state} | {name: copy.copy(getattr(self, name)) for name in KEPT}

    def restore(self, checkpoint: dict[str, Any] | None) -> bool:
        """Go on from a checkpoint; False, and nothing changes, for one without this run's rows."""
        try:
            given = checkpoint["state"]
            devices = dict.fromkeys(given, self.fed.device)
            devices |= {name: row.device for name, row in self.state.items()}
            state = {name: given[name].to(device) for name, device in devices.items()}
            found = {name: checkpoint[name] for name in KEPT}
            kinds = [(row.shape, row.dtype) for row in self.state.values()]
            if [(state[name].shape, state[name].dtype) for name in self.state] != kinds:
                return False
            found["made_with"] = {
                name: list(dict.fromkeys(found["made_with"][name] + now))
                for name, now in self.made_with.items()
            }
        except (AttributeError, KeyError, TypeError):
            return False
        vars(self).update(found, state=state)
        return True

    def result(self, config: dict[str, Any]) -> Result:
        """The finished run's result; `config` is completed by what it was made with.

        The model is the last served one, a row for each client whose model is read, or one for all.
        """
        with one_thread():
            served = asked.served(self.method, self.fed, self.state)
        clients, rows = self.fed.evaluated_clients, (served["theta"], served["statistics"])
        rows = [row[None] if row.dim() == 1 else select_rows(row, clients) for row in rows]
        named = {name: value.cpu().clone() for name, value in self.fed.layout.named(*rows).items()}
        model = _loadable(named, self.fed.module)
        names = self.matrices[0] if self.matrices else ()
        made = {name: "; ".join(words) for name, words in self.made_with.items()}
        made["finished"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        columns = {"round": int, "client": int, "accuracy": float, "loss": float}
        metrics = pd.DataFrame(self.metrics, columns=None if self.metrics else [*columns])
        return Result(
            config | made,
            metrics.astype(columns),
            torch.stack(self.weights).numpy() if self.weights else None,
            self.diverged,
            self.seconds,
            model,
            np.array(self.weights_rounds) if self.weights else None,
            {name: torch.stack([m[name] for m in self.matrices]).numpy() for name in names},
            np.array(self.matrices_rounds, dtype=int),
            None if math.isnan(sum(self.bytes)) else tuple(self.bytes),
            self.non_finite,
        )


def _loadable(model: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Models [n, ...] under all names that the network's `load_state_dict` asks for, and no other:
    shared tensors have several, and whole-number buffers are in no row.
    """
    first = {name: rows[0] for name, rows in model.items()}
    found = module.load_state_dict(first, strict=False)
    tensors = [*module.named_parameters(), *module.named_buffers()]
    known = {id(tensor): model.get(name) for name, tensor in tensors}
    model = {name: rows for name, rows in model.items() if name not in found.unexpected_keys}
    n, held = len(next(iter(model.values()))), module.state_dict(keep_vars=True)
    for name in found.missing_keys:
        if isinstance(tensor := held[name], Tensor):
            rows = known.get(id(tensor))
            same = [tensor.detach().cpu()] * n
            model[name] = torch.stack(same) if rows is None else rows
    return model
