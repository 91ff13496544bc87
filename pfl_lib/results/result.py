"""What one run gave."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.errors import BadInput, choose, client_number
from pfl_lib.results.writing import content_of, written

PROTOCOLS = ("best", "last", "best on validation")
"""Which round a table reports: WAFFLE the best on the test data, FedFomo and pFedLA the last."""
OVER = ("clients", "alice", "worst", "p10")
"""Whose number: the mean over the evaluated clients, Alice's, the worst client's, or the client's
at the worst tenth (10th percentile; of a loss the 90th).
"""
LOWER = frozenset("loss losses error errors err nll mse rmse mae brier ece perplexity".split())
"""Words in the names of metrics of which the lowest is the best."""
MEASURED = ("accuracy", "loss", "batch_accuracy", "balanced_accuracy", "bytes")
"""What `Result.value` may be asked for, whether a run has measured it or not."""
MODELS = ("served", "trained")
"""The served model as it is, or after the client's own local epochs (measure "trained")."""


@dataclass(eq=False, repr=False)
class Result:
    """What one spec gave.

    `metrics`: tidy, one row per evaluated round and client whose model is read: round, client,
    accuracy (0 to 1), loss, and what the method logs (models_up, models_down: vectors of P numbers
    sent by and to all clients; alpha for APFL).  `weights`: the server's weights, [rounds, N], or
    [rounds, N, N] where every client has its own (row i: client i's model), or [rounds, L, N, N]
    where every layer has.  `weights_rounds` are their rounds: all, or up to 50 evenly spaced ones
    of matrices (`experiments.logs.kept_rounds`).  `diverged`: the round at which the loss became
    NaN or infinite; the run stopped there.  `seconds`: training and evaluation, over all sessions
    of a resumed run.  `model`: tensors of the served model by name, [evaluated_clients, ...], or
    [1, ...] where it is the same for all; None for most published results.
    `matrices`: what else the method logs by client and client, such as FedFomo's "affinity",
    [rounds, N, N]; `matrices_rounds` are their rounds.  `bytes`: what all clients together sent
    and received in all rounds (up, down), at 4 bytes a number; None where the method does not tell.
    `non_finite`: the first round in which a client's local training, or the model it was served,
    held NaN or infinity, by client; where its weight is 0 the run goes on.
    """

    config: dict[str, Any]
    metrics: pd.DataFrame
    weights: np.ndarray | None
    diverged: int | None
    seconds: float
    model: dict[str, Tensor] | None = field(default=None, repr=False)
    weights_rounds: np.ndarray | None = None
    matrices: dict[str, np.ndarray] = field(default_factory=dict)
    matrices_rounds: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    bytes: tuple[float, float] | None = None
    non_finite: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weights is not None and self.weights_rounds is None:
            self.weights_rounds = np.arange(1, len(self.weights) + 1)

    def __repr__(self) -> str:
        rounds = self.metrics["round"].max() if len(self.metrics) else 0
        clients = self.metrics["client"].unique()
        whose = f"of client {clients[0]}" if len(clients) == 1 else f"over {len(clients)} clients"
        told = [f"{rounds} rounds"]
        if rounds:
            told.append(f"accuracy {whose} best {percent(self.best_accuracy)}")
        if self.diverged is not None:
            told.append(f"diverged in round {self.diverged}{self.lost_clients}")
        elif rounds:
            told.append(f"last {percent(self.last_accuracy)}")
        name = self.config["method"]["name"]
        return f"<Result of {name}: {', '.join(told)}; .metrics, .weights, .plot()>"

    @property
    def lost_clients(self) -> str:
        """Who brought NaN or infinity into the round that diverged: " (client 2)", or nothing."""
        lost = sorted(k for k, round in self.non_finite.items() if round == self.diverged)
        some = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        names = ", ".join(str(self.client_names.get(k, k)) for k in lost[:5])
        return f" (client{'s' if len(lost) > 1 else ''} {names}{some})" if lost else ""

    @property
    def client_names(self) -> dict[int, str]:
        """Clients' names by number, where they have any, as a CSV file's clients have."""
        return dict(enumerate(self.config.get("names", ())))

    def by_round(self, metric: str) -> pd.DataFrame:
        """A metric with a row for each evaluated round and a column for each client."""
        choose("metric", metric, [name for name in self.metrics if name not in ("round", "client")])
        return self.metrics.pivot(index="round", columns="client", values=metric)

    def accuracy_by_round(self) -> pd.Series:
        """Test accuracy (0 to 1) by round: Alice's where there is one, else the clients' mean; NaN
        where a client's is.
        """
        return self.by_round("accuracy").mean(axis=1, skipna=False).rename("accuracy")

    @property
    def best_accuracy(self) -> float:
        """The best round's accuracy (0 to 1), as in WAFFLE: `value()`."""
        return self.value()

    @property
    def last_accuracy(self) -> float:
        """The last round's accuracy (0 to 1): `value(protocol="last")`."""
        return self.value(protocol="last")

    def value(
        self,
        metric: str = "accuracy",
        protocol: str = "best",
        over: str = "clients",
        model: str = "served",
    ) -> float:
        """One number out of `metrics`, as a table's protocol reads it: accuracies 0 to 1.

        * `metric`: a column, such as "accuracy" or "loss".  Where its name has a word of `LOWER`,
          as "train_loss" and "valLoss" have, the lowest is the best.
          "bytes" are those of all clients and rounds, both ways, whatever else is asked for.
        * `protocol`: "best", the best round of this metric; "last", the last evaluated
          one; "best on validation", the round with the highest accuracy of the served model on
          validation data (measure "validation").  The first of equal rounds; never round 0.
        * `over`: "clients", the mean over the evaluated clients (Alice, where she alone is
          evaluated), "alice", "worst" or "p10".  The last two read the round that the mean chooses,
          so that mean and spread speak of the same models.
        * `model`: "served", or "trained", after each client's own epochs (measure "trained").

        NaN where a run has no such number: no round, no Alice, or a metric or model that was not
        measured.  A round in which one client's number is NaN has no mean: it is never the
        best, and where it is the last the answer is NaN, for the worst client too.  Raises BadInput
        for an unknown metric, protocol, over or model, and for "best on validation" where no
        validation accuracy was measured.
        """
        if isinstance(metric, str) and metric == "bytes":
            return float("nan") if self.bytes is None else float(sum(self.bytes))
        alice = self.config.get("alice")
        mean, each = self._read(metric, protocol, model, alice if over == "alice" else None)
        if choose("over", over, OVER) == "clients" or not len(each) or np.isnan(mean):
            return mean
        if over == "alice":
            return float(each[alice]) if alice is not None else float("nan")
        if over == "worst":
            return float(each.max() if _lower_is_better(metric) else each.min())
        return float(each.quantile(0.9 if _lower_is_better(metric) else 0.1))

    def by_client(
        self, metric: str = "accuracy", protocol: str = "best", model: str = "served"
    ) -> pd.Series:
        """Each evaluated client's number, by client (by name, where they have any), in the round
        that their mean chooses; empty where there is none.  Arguments and errors as of `value`.
        """
        each = self._read(metric, protocol, model, None)[1]
        return each.rename(index=self.client_names)

    def _read(
        self, metric: str, protocol: str, model: str, of: int | None
    ) -> tuple[float, pd.Series]:
        """Mean and numbers by client in the round that the mean, or client `of`, chooses."""
        choose("protocol", protocol, PROTOCOLS)
        known = {*MEASURED, *(name for name in self.metrics if name not in ("round", "client"))}
        choose("metric", metric, sorted(known))
        column = metric if choose("model", model, MODELS) == "served" else f"{metric}_{model}"
        by = "accuracy_validation" if protocol == "best on validation" else column
        if protocol == "best on validation" and by not in self.metrics:
            told = "protocol 'best on validation': no validation accuracy was measured"
            raise BadInput(f"{told}; train with validation=0.2 and measures='validation'")
        nothing = float("nan"), pd.Series(dtype=float)
        if not {column, by} <= set(self.metrics.columns):
            return nothing
        each = self.by_round(column)
        clients = each.columns if of is None else [of]
        read = chosen_by = each[clients].mean(axis=1, skipna=False)
        if by != column:
            chosen_by = self.by_round(by)[clients].mean(axis=1, skipna=False)
        if protocol != "last":
            chosen_by = chosen_by[read.notna() & chosen_by.notna()]
        chosen_by = chosen_by.loc[1:]
        if not len(chosen_by):
            return nothing
        if protocol == "last":
            chosen = chosen_by.index[-1]
        else:
            whole = chosen_by.round(12)  # equal means may differ in their last bits
            chosen = whole.idxmin() if _lower_is_better(by) else whole.idxmax()
        return float(read[chosen]), each.loc[chosen, clients].rename(column)

    def plot(self):
        """Draw accuracy by round, and the weights where there are any, of a matrix [N, N] the last
        round's, by layer their mean; returns the matplotlib figure.
        """
        from pfl_lib.display import curves, theme

        with theme.theme():
            figure = curves.of_result(self)
            theme.show(figure, "Accuracy by round, and shares of the average where there are any.")
        return figure

    def save_model(self, path: str | os.PathLike, client: int | str | None = None) -> Path:
        """Write the model of a client, a number or a name, a state dict (torch.save); default:
        Alice's, or the only one.
        """
        evaluated_clients = sorted(self.metrics["client"].unique().tolist())
        if self.diverged is not None:
            told = f"this run diverged at round {self.diverged}, and its model with it"
            raise BadInput(f"{told}: run it with a smaller rate")
        if self.model is None:
            told = "this result carries no model, as published ones and those of alice='each'"
            of = ", alice=2" if len(evaluated_clients) > 1 else ""
            cure = f"pfl_lib.run(...{of}, with_model=True)"
            raise BadInput(f"{told}: ask for a client's with {cure}")
        names = self.client_names
        known = ", ".join(str(names.get(one, one)) for one in evaluated_clients)
        if client is None and len(evaluated_clients) > 1:
            raise BadInput(f"several clients have a served model here: give one of {known}")
        if client is None:
            client = evaluated_clients[0]
        else:
            client = client_number("client", client, [*names.values()])
        if client not in evaluated_clients:
            told = f"client {names.get(client, client)!r} has no served model here"
            raise BadInput(f"{told}: give one of {known}")
        one_for_all = all(len(value) == 1 for value in self.model.values())
        row = 0 if one_for_all else evaluated_clients.index(client)
        of_client = {name: value[row].clone() for name, value in self.model.items()}
        return written("model file", path, content_of(lambda file: torch.save(of_client, file)))


def _lower_is_better(metric: str) -> bool:
    words = re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", metric)  # train_loss, valLoss, MSELoss
    return not LOWER.isdisjoint(word.lower() for word in words)


def percent(accuracy: float) -> str:
    """An accuracy (0 to 1) in words: "12.34%", or that there is none, where a client's is NaN."""
    return "not a number" if np.isnan(accuracy) else f"{accuracy:.2%}"


def status(result: Result | None) -> str:
    """What became of one run: "ran", "not run" or "diverged at round 7"."""
    if result is None:
        return "not run"
    return "ran" if result.diverged is None else f"diverged at round {result.diverged}"
