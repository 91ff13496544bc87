"""Reject modules that local training would fail on or misread."""

import math
import threading
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pfl_lib.engine import vmap
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.private import by_example
from pfl_lib.errors import BadInput
from pfl_lib.federation.clients import Split
from pfl_lib.federation.schedule import Schedule
from pfl_lib.models import Architecture
from pfl_lib.progress import tell
from pfl_lib.randomness import ALONE, number, streams
from pfl_lib.rows import Batch


def make_module(make: Callable[[], nn.Module], seed: int, *client: int) -> nn.Module:
    """The module that `make` gives, its parameters drawn by (seed, client); else BadInput."""
    with ALONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(number(seed, "initial model", *client))
        try:
            module = make()
        except TypeError as error:
            cure = "give a module or a function without arguments that makes one"
            raise BadInput(f"model {make!r} cannot be made: {error}; {cure}") from error
    if not isinstance(module, nn.Module):
        cure = "give a torch.nn.Module or a function that makes one"
        raise BadInput(f"model {make!r} makes {module!r}: {cure}")
    return module


def recorded_as(model: object, module: nn.Module) -> tuple[Architecture, str] | None:
    """What the network's recorded gradients are known by: its name, shape, classes and settings.

    None for every network but the package's own, `model` made into `module`: only their forward is
    known to run the same operations at every batch of a shape.
    """
    ours = ("pfl_lib.models.", "torch.nn.modules.")
    known = all(f"{type(part).__module__}.".startswith(ours) for part in module.modules())
    return (model, repr(module)) if type(model) is Architecture and known else None


def copied(flat: Callable[[], FlatModule]) -> FlatModule:
    """The network's first copy; BadInput where torch cannot copy it."""
    try:
        return flat()
    except RuntimeError as error:
        if "deepcopy" not in str(error):
            raise
        told = "the model cannot be copied, since an attribute is computed from its parameters"
        norm = "torch.nn.utils.parametrizations.weight_norm for torch.nn.utils.weight_norm"
        raise BadInput(f"{told}: compute it in forward, or take {norm}") from error


def takes_channels_last(flat: FlatModule, split: Split) -> bool:
    """Whether the module takes images in that layout, which `view` in its forward may not."""
    try:
        with torch.no_grad():
            flat.network.eval()(split.pool.inputs(split.index[0][:2]))
    except RuntimeError as error:
        return "view size is not compatible" not in str(error)
    except (ValueError, TypeError, IndexError, BadInput):
        pass  # `check` says what is wrong
    return True


def _smallest_batch(schedule: Schedule, examples: int) -> int:
    """Examples in the smallest batch of a client that has so many, over all rounds."""
    batches = math.ceil(examples / schedule.batch_size)
    if schedule.local_batches is not None and schedule.rounds * schedule.local_batches < batches:
        return schedule.batch_size
    return examples - (batches - 1) * schedule.batch_size


def check(flat: FlatModule, split: Split, classes: int, schedule: Schedule) -> None:
    """BadInput for a module that local training would fail on or misread."""
    for part in flat.module.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.momentum is None:
            raise BadInput("BatchNorm with momentum=None counts batches: give momentum a number")
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and not part.track_running_stats:
            told = "is evaluated by whatever else is in the batch, other clients' examples too"
            raise BadInput(f"BatchNorm with track_running_stats=False {told}: let it track them")
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse:
            raise BadInput("an embedding with sparse=True has no gradient as a row: leave it out")
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            raise BadInput("an embedding with max_norm writes into its parameters: leave it out")
    for name, parameter in flat.module.named_parameters():
        if not parameter.requires_grad:
            told = f"parameter {name} is frozen (requires_grad=False)"
            raise BadInput(f"{told}: train it, or make it a buffer")
    # BatchNorm cannot take a single number, and a client's smallest batch is the last of a pass,
    # where one is reached.  All clients who are ever there count, drawn or not: otherwise the seed
    # would decide whether a federation is refused.
    stays = schedule.availability
    away = {i for i, *_ in stays} - {i for i, first, _ in stays if first <= schedule.rounds}
    there = [i for i in range(len(split.index)) if i not in away]
    size, client = min((_smallest_batch(schedule, len(split.index[i])), i) for i in there)
    before, versions = _random_state(split.pool.x.device), _versions(flat)
    begun = flat.layout.rows(flat.module)["theta"]
    buffers = [name for name, _ in flat.module.named_buffers()]
    for training, index in ((False, split.index[0][:1]), (True, split.index[client][:size])):
        batch, rows = split.pool.inputs(index), flat.layout.rows(flat.module)
        try:
            with torch.set_grad_enabled(training):
                scores = flat.network.train(training)(batch)
        except BadInput:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            does, cure = f"take a batch of shape {tuple(batch.shape)}", ""
            if training:
                does = f"train on a batch of {size}, client {client}'s last"
                alone = any(len(split.index[i]) == 1 for i in there)  # whatever the batch size
                norm = "another norm, such as GroupNorm"
                cure = f"; give {norm if alone else 'another batch_size'}"
            why = str(error).partition("\n")[0]
            raise BadInput(f"the model cannot {does}: {why}{cure}") from error
        is_tensor = isinstance(scores, Tensor)
        shape = tuple(scores.shape) if is_tensor else ()
        if len(shape) != 2 or shape[0] != len(batch) or shape[1] < classes:
            given = f"numbers of shape {shape}" if is_tensor else f"a {type(scores).__name__}"
            told = f"the model gives {given} for a batch of {len(batch)}"
            cure = f"give each example a score to each of {classes} classes"
            least = int(torch.cat(split.labels).min())
            raise BadInput(f"{told}; {cure} (labels count from 0; here the least is {least})")
        if shape[1] > classes and not training:
            tell(f"the model gives {shape[1]} scores, and the labels are of {classes} classes")
    if made := [name for name, _ in flat.module.named_buffers() if name not in buffers]:
        told = f"the model makes buffer {made[0]} in training, which no row carries"
        raise BadInput(f"{told}: register it when the model is made")
    if graphs := [name for name, buffer in flat.module.named_buffers() if buffer.requires_grad]:
        told = f"the model's forward writes a value with a gradient into buffer {graphs[0]}"
        raise BadInput(f"{told}: detach it")
    if not scores.requires_grad:
        told = "the model's scores do not depend on its parameters in training"
        raise BadInput(f"{told}, as under no_grad or after detach(): there is nothing to train")
    if stranger := _unregistered(scores, flat.module):
        told = f"a parameter of shape {stranger[0]} that is none of its own"
        why = "as of layers in a plain list, which nothing would train"
        cure = "keep them in an nn.ModuleList"
        raise BadInput(f"the model's scores depend on {told}, {why}: {cure}")
    alone = threading.current_thread() is threading.main_thread()  # else a cell may draw too
    if alone and _random_state(split.pool.x.device) != before:
        told = "the model draws random numbers in training, as dropout does"
        why = "and so its runs could neither be repeated nor resumed"
        raise BadInput(f"{told}, {why}: leave that out (dropout with p=0)")
    same = torch.equal(flat.layout.rows(flat.module)["theta"].nan_to_num(), begun.nan_to_num())
    if _versions(flat) != versions or not same:
        told = "the model's forward writes into its parameters, which training alone may change"
        raise BadInput(f"{told}: compute what it needs of them anew")
    flat.load(**rows)
    again = flat.network(batch)
    if not torch.allclose(again, scores, 1e-3, 1e-5, equal_nan=True):
        told = "the model gives other scores when it is given a batch again"
        kept = "keeps something from one batch to the next, which would go from client to client"
        cure = "keep that in a buffer (register_buffer), or leave it out"
        raise BadInput(f"{told}: it draws random numbers, or {kept}; {cure}")


def check_private(flat: FlatModule, split: Split, schedule: Schedule) -> None:
    """BadInput for a model or clients that DP-SGD cannot train."""
    if schedule.private is None:
        return
    parts = flat.module.modules()
    if flat.layout.S or any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in parts):
        told = "DP-SGD clips each example's own gradient"
        why = "mixes the examples of a batch and gives away their statistics without noise"
        raise BadInput(f"{told}, and BatchNorm {why}: use GroupNorm, or no norm")
    size, counts = schedule.batch_size, [*map(len, split.index)]
    if schedule.private.sampling == "poisson" and size > (least := min(counts)):
        told = f"client {counts.index(least)} has {least} training examples"
        why = f"so batches of {size} would sample at rate {size / least:.3g}, above 1"
        raise BadInput(f"{told}, {why}: give a batch_size of at most {least}")


def check_vmap(flat: FlatModule, split: Split, schedule: Schedule, engine: str) -> None:
    """BadInput for a model that `torch.func.vmap` refuses, where training goes through it."""
    client = max(range(len(split.index)), key=lambda i: len(split.index[i]))
    index, labels = split.index[client][:2], split.labels[client][:2]
    x, row = split.pool.inputs(index), flat.layout.rows(flat.module)
    try:
        if schedule.private:
            why, cure = "DP-SGD takes each example's gradient", "train it without privacy"
            by_example(flat, schedule.private.max_norm)(row["theta"], x, labels)
        elif engine == "vmap":
            why, cure = "engine 'vmap' takes clients side by side", "give engine='loop'"
            models = {name: values[None] for name, values in row.items()}
            batch = Batch(x[None], labels[None], 0, 0.0, 0.0, 0.0)
            vmap.gradients_of(flat)(models["theta"], batch, models["statistics"])
    except (RuntimeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        told = f"{why}, which torch.func.vmap cannot do for this network ({said})"
        raise BadInput(f"{told}: change it, or {cure}") from error


def _random_state(device: torch.device) -> tuple:
    """Where all streams of random numbers stand that follow no seed, the device's own too."""
    on_gpu = device.type == "cuda"
    return *streams(), torch.cuda.get_rng_state(device).numpy().tobytes() if on_gpu else b""


def _unregistered(scores: Tensor, module: nn.Module) -> list[tuple[int, ...]]:
    """The shapes of what the scores' graph would train and the module does not hold."""
    held, seen, nodes = set(map(id, module.parameters())), set(), [scores.grad_fn]
    shapes = []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad" and id(node.variable) not in held:
            shapes.append(tuple(node.variable.shape))
        nodes += [before for before, _ in node.next_functions]
    return shapes


def _versions(flat: FlatModule) -> list[tuple[int, int]]:
    """Where each of the network's parameters lies, and how often it was written into."""
    return [(one.data_ptr(), one._version) for one in flat.module.parameters()]
