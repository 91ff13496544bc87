"""A federation: clients' data, a model, a schedule and a seed; what a method may ask of it."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pfl_lib.engine import LOSSES, loop, vmap
from pfl_lib.engine.flat import FlatModule, constant_buffers
from pfl_lib.engine.layout import Layer
from pfl_lib.errors import BadInput, choose, whole
from pfl_lib.federation import checks, evaluation, model_checks
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.batches import work_of
from pfl_lib.federation.behaviour import behaviour_of, settings_of
from pfl_lib.federation.clients import Clients, Split
from pfl_lib.federation.devices import choose_device
from pfl_lib.federation.participation import participants
from pfl_lib.federation.schedule import Schedule
from pfl_lib.progress import tell
from pfl_lib.randomness import ALONE
from pfl_lib.rows import IN_PLACE, Rows, Step, finite_rows, sgd

# Parameters below which a GPU takes clients side by side and a CPU plays recordings; larger
# networks are busy with arithmetic
SMALL_MODEL = 1_000_000

ENGINES = ("auto", "loop", "vmap")


class Federation:
    """Data + model + schedule + seed.  Rounds are counted from 1, as in the papers.

    `model` is a function that makes a module (its initial parameters then follow the seed) or a
    module, whose present parameters every client starts from.  `alice` is the one client whose
    model is read and evaluated, a number or a name (of `clients.names`); None: all clients.
    `engine` is "loop", "vmap" or "auto" (loop on a CPU; vmap on a GPU for networks below a million
    parameters that torch.func takes, and the package's local steps); loop trains `threads` clients
    at once.  With "auto" nothing depends on the device but rounding; with "vmap" a local step of
    one's own is given many clients' rows, and has to keep them apart.

    `loss` is "cross_entropy" or "half_cross_entropy", half of it; `device` "auto" (a GPU where
    there is one), "cpu" or "cuda"; `dtype` torch.float32 or torch.float64.

    With a `name` its runs are stored, under that name, `version`, the data and the initial model;
    raise the version for what these do not show.
    """

    # The checksum of the partition that dealt the data, where a run has set it: a user's own.
    split = ""

    def __init__(
        self,
        clients: Clients,
        model: nn.Module | Callable[[], nn.Module],
        schedule: Schedule,
        *,
        seed: int = 1,
        alice: int | str | None = None,
        loss: str = "cross_entropy",
        device: str = "auto",
        engine: str = "auto",
        threads: int = 1,
        dtype: torch.dtype = torch.float32,
        name: str | None = None,
        version: int = 1,
    ) -> None:
        checks.check_settings(seed, version, threads, dtype, name)
        alice = checks.check_clients(clients, schedule, alice)
        self.clients, self.schedule, self.seed, self.alice = clients, schedule, seed, alice
        self.name, self.version, self.loss = name, version, loss
        # Whose training ended in NaN or infinity; a run empties it.
        self.non_finite: set[int] = set()
        # (client, purpose, round, local steps) of training by DP-SGD; a run empties it every round.
        self.private_steps: list[tuple[int, str, int, int]] = []
        self.device = choose_device(device)
        self.dtype = dtype
        given = isinstance(model, nn.Module)
        module = model if given else model_checks.make_module(model, seed)
        # As made, since a forward may change them
        made_of = settings_of(module) if name is not None else ""
        if any(isinstance(one, nn.UninitializedParameter) for one in module.parameters()):
            raise BadInput("the model has a lazy layer of no known size: give layers their sizes")
        if next(module.parameters(), None) is None:
            kind = type(module).__name__
            raise BadInput(f"model {kind} has no parameters: there is nothing to train")
        small = sum(parameter.numel() for parameter in module.parameters()) < SMALL_MODEL
        on_gpu, of_loss = self.device.type == "cuda", LOSSES[choose("loss", loss, LOSSES)]

        recorded_as = model_checks.recorded_as(model, module) if small else None
        constant: Collection[str] = ()

        def flat() -> FlatModule:
            return FlatModule(module, of_loss, self.device, dtype, recorded_as, constant)

        template = model_checks.copied(flat)
        splits = clients.splits.items()
        self._splits = {name: split.to(self.device, dtype) for name, split in splits}
        if not model_checks.takes_channels_last(template, self._splits["train"]):
            for name, split in self._splits.items():
                pool = replace(split.pool, channels_last=False)
                self._splits[name] = replace(split, pool=pool)
        train = self._splits["train"]
        first = (index[: schedule.batch_size] for index in train.index)
        constant = constant_buffers(module, map(train.pool.inputs, first))
        template = flat()  # once more, since a forward may have written into the first one
        self.layout = template.layout
        self._initial = self.layout.rows(template.module)
        self._make = None if given else model
        self._chosen = choose("engine", engine, ENGINES) != "auto"
        if not self._chosen:
            engine = "vmap" if on_gpu and small else "loop"
        self.engine = engine
        others = threads - 1 if engine == "loop" else 0
        self._modules = [template, *(flat() for _ in range(others))]
        model_checks.check_private(template, train, schedule)
        with ALONE:
            model_checks.check(template, train, clients.classes, schedule)
        try:
            model_checks.check_vmap(template, train, schedule, engine)
        except BadInput as refused:
            lost = isinstance(refused.__cause__, torch.OutOfMemoryError)
            if self._chosen or schedule.private or lost:
                raise
            tell(f"clients train one after the other: {refused}")
            self.engine = "loop"
        self.layout = template.in_forward_order(train.pool.inputs(train.index[0][:1]))
        self.behaviour = ""
        if name is not None:
            does = behaviour_of(module, clients.splits["train"], small)
            self.behaviour = f"{made_of}-{does}".strip("-")

    @classmethod
    def from_arrays(
        cls,
        train: Sequence[tuple],
        test: Sequence[tuple],
        model: nn.Module | Callable[[], nn.Module],
        schedule: Schedule,
        *,
        validation: Sequence[tuple] = (),
        names: Sequence[str] = (),
        seed: int = 1,
        alice: int | str | None = None,
        loss: str = "cross_entropy",
        device: str = "auto",
        engine: str = "auto",
        threads: int = 1,
        dtype: torch.dtype = torch.float32,
        name: str | None = None,
        version: int = 1,
    ) -> "Federation":
        """A federation of one's own data: for each client a pair (x [n, ...], y [n]) of arrays,
        inputs as the model takes them; `names` are the clients', where they have any.
        """
        data = client_data.from_arrays(train, test, validation, names=names)
        x = data.splits["train"].pool.x
        pictures = len(data.input_shape) > 1 and x.min() >= 0 and 127 < x.max() <= 255
        if pictures and not (x % 1).any():
            tell("inputs are pictures of whole numbers to 255: divided by 255 they train better")
        where = {"device": device, "engine": engine, "threads": threads, "dtype": dtype}
        stored = {"name": name, "version": version}
        return cls(data, model, schedule, seed=seed, alice=alice, loss=loss, **where, **stored)

    def __len__(self) -> int:
        """Number of clients, N."""
        return len(self.clients)

    @property
    def evaluated_clients(self) -> list[int]:
        """The clients whose models are read: Alice alone where there is one, else all."""
        return list(range(len(self))) if self.alice is None else [self.alice]

    @property
    def module(self) -> nn.Module:
        """The network; its parameters are whatever row was loaded last."""
        return self._modules[0].module

    def initial(self) -> Rows:
        """The model that every client starts from: {"theta": [P], "statistics": [S]}."""
        return {name: row.clone() for name, row in self._initial.items()}

    @property
    def constants(self) -> list[Tensor]:
        """The network's buffers of fractions that no row carries, such as masks."""
        held = self.module.named_buffers()
        return [buffer for name, buffer in held if name in self._modules[0].constant]

    def initial_each(self, clients: Sequence[int]) -> Rows:
        """Models that clients draw for themselves, each by seed and client: {"theta": [n, P],
        "statistics": [n, S]}.  BadInput where the federation was given a module, not a function.
        """
        if self._make is None:
            told = "each client is to draw a model of its own, and one module was given"
            raise BadInput(f"{told}: give a function that makes it, such as lambda: Net()")
        modules = [model_checks.make_module(self._make, self.seed, i) for i in self._known(clients)]
        for name in self._modules[0].constant:
            held = self.module.get_buffer(name)
            if not all(torch.equal(m.get_buffer(name).to(held), held) for m in modules):
                told = f"buffer {name} is drawn anew for each client, and no training changes it"
                raise BadInput(f"{told}: draw it by a generator of its own")
        rows = [self.layout.rows(module.to(self.device, self.dtype)) for module in modules]
        return {name: torch.stack([row[name] for row in rows]) for name in self._initial}

    def with_training_labels(self, labels: Mapping[int, Tensor]) -> "Federation":
        """The same federation with other labels [n] on the training examples of some clients."""
        split, other = self._splits["train"], copy.copy(self)
        own = (labels.get(i, held).to(held) for i, held in enumerate(split.labels))
        other._splits = self._splits | {"train": replace(split, labels=tuple(own))}
        return other

    def zeros(self, *lead: int) -> Tensor:
        """Zeros [*lead, P]: control variates and the like."""
        return torch.zeros(*lead, self.layout.P, device=self.device, dtype=self.dtype)

    def sizes(self, clients: Sequence[int] | None = None) -> Tensor:
        """Training examples of the given clients (all by default), [n] in float64."""
        ids = range(len(self)) if clients is None else self._known(clients)
        held = self.clients.splits["train"].index
        return torch.tensor([len(held[i]) for i in ids], dtype=torch.float64)

    def participants(self, round: int) -> list[int]:
        """The clients that take part in a round, ascending: see `participation.participants`."""
        return participants(self.schedule, len(self), self.alice, self.seed, round)

    def train(
        self,
        rows: Rows,
        round: int,
        clients: Sequence[int],
        step: Step = sgd,
        *,
        trained: Sequence[str] = ("theta",),
        epochs: int | None = None,
        purpose: str = "batches",
        shared: Mapping[int, Tensor] | None = None,
        uploaded: Sequence[Layer] | None = None,
    ) -> tuple[Rows, Tensor]:
        """Local training of n clients: rows {name: [n, width]} take a `step` for each mini-batch.

        `trained` names the rows that training changes; they are returned, with "statistics", in new
        matrices (the input is left as it was) beside the number of local steps of each client [n]
        in float64.  Batches depend on (seed, purpose, round, client) only.  `epochs` replaces the
        schedule's local work by so many passes.  `shared` holds the positions of the training
        examples that a client gives to every other client, with its labels.  `uploaded`, the layers
        of "theta" that leave the client (None: all), matters to `methods.poisoned` alone.
        """
        whole("round", round, 0)  # 0: what a method's `start` trains
        whole("epochs", 1 if epochs is None else epochs, 1)
        clients = self._fitting(clients, rows)
        if len(set(clients)) < len(clients):
            raise BadInput(f"clients {clients}: give each of them once")
        split, private = self._splits["train"], self.schedule.private
        if private and shared:
            told = "DP-SGD protects examples that stay with their client"
            raise BadInput(f"{told}, and this method shares some: train it without privacy")
        key = (split, self.schedule, self.seed, purpose, round)
        work = [work_of(*key, i, epochs, shared).to(self.device) for i in clients]
        if private:
            self.private_steps += [
                (i, purpose, round, len(of.batches)) for i, of in zip(clients, work, strict=True)
            ]
        names = tuple(dict.fromkeys((*trained, "statistics")))
        settings = (split.pool, rows, work, step, names, self.schedule.sgd_at(round))
        # A step of a user's own may take one client's rows apart, as theta[:10]: of many clients'
        # these would be whole clients, without a word.
        ours = (getattr(step, "__module__", None) or "").startswith("pfl_lib.")
        try:
            if self.engine == "vmap" and (self._chosen or ours):
                out = vmap.train(self._modules[0], *settings)
            else:
                out = loop.train(self._modules, *settings, watched=not ours)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise BadInput(f"a client's batch of one: {error}; give another batch_size") from None
        if not ours and clients and all(torch.equal(out[name], rows[name]) for name in out):
            told = "a local step left all rows as they were: if it is to train"
            tell(f"{told}, it should change them in place, as in {IN_PLACE}")
        for matrix in out.values():
            self.non_finite.update(clients[k] for k in (~finite_rows(matrix)).nonzero()[:, 0])
        return out, torch.tensor([len(w.batches) for w in work], dtype=torch.float64)

    def evaluate(
        self, model: Rows, split: str = "test", clients: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean loss [n] and accuracy [n] (0 to 1), in float64, of a model ([P]) or of each client's
        own ([n, P]) on clients' data; both NaN where scores are.
        """
        each = model["theta"].dim() == 2
        ids = self._fitting(range(len(self)) if clients is None else clients, model, each)
        return evaluation.of_clients(self._modules[0], model, self._split(split, ids), ids)

    def examples(self, model: Rows, split: str, client: int) -> tuple[Tensor, Tensor]:
        """Loss [b] and correctness (1, 0) [b], float64, of a model [P] on a client's examples; both
        NaN where scores are.
        """
        [client] = self._fitting([client], model, each=False)
        return evaluation.of_examples(self._modules[0], model, self._split(split, [client]), client)

    def _split(self, name: str, clients: Sequence[int]) -> Split:
        if name == "validation" and name not in self._splits:
            told = "split 'validation': nothing is held out; give run or from_csv validation=0.2"
            raise BadInput(f"{told}, or from_arrays validation pairs")
        split = self._splits[choose("split", name, self._splits)]
        for client in clients:
            if not len(split.index[client]):
                told = f"client {client} has no {name} examples, so her model cannot be read"
                raise BadInput(f"{told}: leave her out")
        return split

    def _fitting(self, clients: Sequence[int], rows: Rows, each: bool = True) -> list[int]:
        """The clients' numbers; BadInput for one that is none, and for rows that do not fit."""
        ids = self._known(clients)
        checks.check_rows(rows, self._initial, len(ids) if each else None)
        return ids

    def _known(self, clients: Sequence[int]) -> list[int]:
        """The clients' numbers; BadInput for one that is none."""
        return checks.numbers_of(clients, len(self))


def alice_of(fed: Federation, title: str) -> int:
    """The client whose model the method makes; BadInput where the federation names none."""
    if fed.alice is None:
        told = f"{title} makes one client's model: give alice=0, or another client's number"
        every = 'or to pfl_lib.run "each" for every client of a data set'
        raise BadInput(f"{told} (a Federation takes it itself), {every}")
    return fed.alice
