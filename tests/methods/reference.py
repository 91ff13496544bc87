"""Every method once more, slowly and by its paper's pseudo-code: a module a client, Python's loops,
torch's optimiser.

Nothing here comes from the package's engine or methods.  A reference is given a `World` and a
method's hyper-parameters `m`; after every round it yields the module that each client is served.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import pairwise

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import brentq
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from pfl_lib.federation.batches import batches
from pfl_lib.randomness import generator


class World:
    """What a federation and a reference have in common: data, first model, schedule, and draws."""

    def __init__(self, fed, module: nn.Module) -> None:
        self.model, self.n, self.alice = module, len(fed), fed.alice
        self.seed, self.schedule = fed.seed, fed.schedule
        self.rounds = [(r, fed.participants(r)) for r in range(1, fed.schedule.rounds + 1)]
        self.train, self.validation = (
            [(split.pool.x[at], y) for at, y in zip(split.index, split.labels, strict=True)]
            for split in (fed.clients.splits[name] for name in ("train", "validation"))
        )
        self.size = [len(y) for _, y in self.train]

    def draw(self, purpose: str, *key: int) -> torch.Generator:
        return generator(self.seed, purpose, *key)

    def batches(self, r: int, i: int, epochs=None, purpose="batches", data=None) -> list:
        x, y = data or self.train[i]
        places = batches(self.schedule, self.seed, purpose, r, i, len(y), epochs)
        return [(x[at], y[at]) for at in places]

    def optimiser(self, model: nn.Module, r: int) -> torch.optim.SGD:
        plan = self.schedule
        settings = {"momentum": plan.momentum, "weight_decay": plan.weight_decay}
        return torch.optim.SGD(model.parameters(), plan.lr * plan.lr_decay ** (r - 1), **settings)


Served = Iterator[list[nn.Module]]


def train(w: World, start: nn.Module, r: int, i: int, penalty=lambda model: 0, **drawn):
    """A client's local training from a model; the penalty is part of its loss."""
    model = deepcopy(start)
    optimiser = w.optimiser(model, r)
    for x, y in w.batches(r, i, **drawn):
        optimiser.zero_grad()
        (cross_entropy(model(x), y) + penalty(model)).backward()
        optimiser.step()
    return model


def vector(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def layer(name: str) -> str:
    return name.rpartition(".")[0]


def average(models: Sequence[nn.Module], weights: Callable[[str], Sequence[float]] | Sequence):
    """The weighted mean of parameters and running statistics; weights may differ by layer."""
    mean, states = deepcopy(models[0]), [model.state_dict() for model in models]
    for name, value in mean.state_dict().items():
        of_layer = weights(name) if callable(weights) else weights
        if value.is_floating_point():
            value.copy_(sum(a * state[name] for a, state in zip(of_layer, states, strict=True)))
    return mean


def equally(models: Sequence[nn.Module]) -> nn.Module:
    return average(models, [1 / len(models)] * len(models))


def by_size(w: World, clients: list[int], models: Sequence[nn.Module]) -> nn.Module:
    return average(models, [w.size[i] / sum(w.size[j] for j in clients) for i in clients])


def distance(one: nn.Module, other: nn.Module) -> float:
    return (vector(one) - vector(other)).norm().item()


def loss_of(model: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    model = deepcopy(model).eval()
    return cross_entropy(model(data[0]), data[1]).item()


def squared(model: nn.Module, anchor: nn.Module) -> Tensor:
    pairs = zip(model.parameters(), anchor.parameters(), strict=True)
    return sum((p - q.detach()).square().sum() for p, q in pairs)


def fedavg(w: World, m, mu: float = 0.0) -> Served:
    x = w.model
    for r, clients in w.rounds:
        near = functools.partial(lambda x, y: mu / 2 * squared(y, x), x)
        x = by_size(w, clients, [train(w, x, r, i, near) for i in clients])
        yield [x] * w.n


def fedprox(w: World, m) -> Served:
    return fedavg(w, m, m.mu)


def fedavg_data(w: World, m) -> Served:
    pool_of = sum(w.size) / (1 if m.pool == "all" else w.n)
    counts = [math.floor(m.share * pool_of * size / sum(w.size)) for size in w.size]
    short, random = math.floor(m.share * pool_of + 0.5) - sum(counts), w.draw("shared data")
    for i in torch.randperm(w.n, generator=random)[:short].tolist():
        counts[i] += 1
    draws = [torch.randperm(n, generator=w.draw("shared data", i)) for i, n in enumerate(w.size)]
    gifts = [(x[d[:c]], y[d[:c]]) for (x, y), d, c in zip(w.train, draws, counts, strict=True)]
    held = []
    for i, own in enumerate(w.train):
        parts = [own, *(gift for j, gift in enumerate(gifts) if j != i)]
        held.append(tuple(torch.cat(column) for column in zip(*parts, strict=True)))
    x = w.model
    for r, clients in w.rounds:
        total = sum(len(held[i][1]) for i in clients)
        trained = [train(w, x, r, i, data=held[i]) for i in clients]
        x = average(trained, [len(held[i][1]) / total for i in clients])
        yield [x] * w.n


def broken_global(w: World, m) -> Served:
    """With Haiku's [inputs, outputs] and Python's own `sum` of two arrays."""

    def haiku(tensor: Tensor) -> Tensor:
        return tensor.T if tensor.dim() == 2 else tensor

    x = w.model
    for r, clients in w.rounds:
        updates = []
        for i in sorted(clients, key=lambda i: (i != w.alice, i)):
            pairs = zip(train(w, x, r, i).parameters(), x.parameters(), strict=True)
            updates.append([haiku((after - before).detach()) for after, before in pairs])
        total = functools.reduce(lambda a, b: list(map(sum, a, b)), updates)
        x = deepcopy(x)
        for p, update in zip(x.parameters(), total, strict=True):
            p.data += haiku(update) / len(clients)
        yield [x] * w.n


def per_fedavg(w: World, m) -> Served:
    """With the Hessian by automatic differentiation."""

    def step(model: nn.Module, inner: tuple, outer: tuple) -> list[Tensor]:
        params = dict(model.named_parameters())
        loss = cross_entropy(functional_call(deepcopy(model), params, inner[0]), inner[1])
        slopes = torch.autograd.grad(loss, params.values(), create_graph=m.hessian != "none")
        moved = {n: p - m.alpha * g for (n, p), g in zip(params.items(), slopes, strict=True)}
        loss = cross_entropy(functional_call(model, moved, outer[0]), outer[1])
        return torch.autograd.grad(loss, params.values())

    x = w.model
    for r, clients in w.rounds:
        trained = []
        for i in clients:
            y = deepcopy(x)
            optimiser = w.optimiser(y, r)
            for xs, ys in w.batches(r, i):
                cut = (len(ys) + 1) // 2
                one, two = (xs[:cut], ys[:cut]), (xs[cut:], ys[cut:])
                if len(ys) < 4:
                    one = two = (xs, ys)
                parts = [(step(y, one, two), len(two[1])), (step(y, two, one), len(one[1]))]
                whole = sum(n for _, n in parts)
                for k, p in enumerate(y.parameters()):
                    p.grad = sum(slopes[k] * (n / whole) for slopes, n in parts)
                optimiser.step()
            trained.append(y)
        x = equally(trained)
        served = []
        for i in range(w.n):
            y, total = deepcopy(x), w.size[i]
            for xs, ys in w.batches(1, i, epochs=1, purpose="adaptation"):
                copy = deepcopy(x)
                cross_entropy(copy(xs), ys).backward()
                for p, q in zip(y.parameters(), copy.parameters(), strict=True):
                    p.data -= m.alpha * q.grad * len(ys) / total
            served.append(y)
        yield served


def corrected(w: World, x: nn.Module, r: int, i: int, c: list, ci: list, m):
    """SCAFFOLD's client: its model and its new control variate."""
    y, raw = deepcopy(x), []
    optimiser = w.optimiser(y, r)
    for xs, ys in w.batches(r, i):
        optimiser.zero_grad()
        cross_entropy(y(xs), ys).backward()
        raw.append([p.grad.clone() for p in y.parameters()])
        for p, of_all, own in zip(y.parameters(), c, ci, strict=True):
            p.grad += of_all - own
        optimiser.step()
    if m.option == "I":
        new = [torch.zeros_like(p) for p in x.parameters()]
        for xs, ys in w.batches(r, i, epochs=1, purpose="control variates"):
            copy = deepcopy(x)
            cross_entropy(copy(xs), ys).backward()
            for total, p in zip(new, copy.parameters(), strict=True):
                total += p.grad * len(ys) / w.size[i]
    elif w.schedule.momentum:
        new = [sum(slopes) / len(raw) for slopes in zip(*raw, strict=True)]
    else:
        steps = len(raw) * optimiser.param_groups[0]["lr"]
        of = zip(x.parameters(), y.parameters(), c, ci, strict=True)
        new = [own - total + (p - q).detach() / steps for p, q, total, own in of]
    return y, new


def scaffold(w: World, m) -> Served:
    x, zero = w.model, [torch.zeros_like(p) for p in w.model.parameters()]
    c, controls = zero, [zero] * w.n
    for r, clients in w.rounds:
        of = {i: corrected(w, x, r, i, c, controls[i], m) for i in clients}
        x = equally([model for model, _ in of.values()])
        for i, (_, new) in of.items():
            change = zip(c, new, controls[i], strict=True)
            c = [total + (after - before) / w.n for total, after, before in change]
            controls[i] = new
        yield [x] * w.n


def weight_erosion(w: World, m) -> Served:
    x, alpha, passes = w.model, {}, [0] * w.n
    for r, clients in w.rounds:
        trained = {i: train(w, x, r, i) for i in clients}
        start = sum(alpha.values()) / len(alpha) if alpha else 1.0
        alpha = dict.fromkeys(clients, start) | alpha
        for i in clients:
            d = distance(trained[i], trained[w.alice]) / distance(trained[w.alice], x)
            alpha[i] = max(0.0, alpha[i] - (1 + m.p_s * passes[i]) * m.p_d * d)
            passes[i] += w.schedule.local_epochs
        total = sum(alpha[i] for i in clients)
        x = average(list(trained.values()), [alpha[i] / total for i in clients])
        yield [x] * w.n


def waffle(w: World, m) -> Served:
    x, zero, everybody = w.model, [torch.zeros_like(p) for p in w.model.parameters()], range(w.n)
    c, controls, history = zero, [zero] * w.n, [[1 / len(w.rounds[0][1])] * w.n] * 2
    for r, clients in w.rounds:
        of = {i: corrected(w, x, r, i, c, controls[i], m) for i in clients}
        degree = 1 / (1 + math.exp(m.slope * (r / (len(w.rounds) / 2) - 1)))
        d = {i: distance(of[i][0], of[w.alice][0]) for i in clients}
        far, near = (f(d[i] for i in clients if i != w.alice) for f in (max, min))
        d[w.alice] = near * (1 - (far - near) / far * (1 - degree))
        span = far - min(d.values())
        now = [max(degree - (d[i] - d[w.alice]) / span, 0) if i in d else 0 for i in everybody]
        if r >= 0.95 * len(w.rounds):
            now = [float(i == w.alice) for i in everybody]
        history.append([now[i] / sum(now) if i in clients else None for i in everybody])
        seen = ([one[i] for one in history[-3:] if one[i] is not None] for i in clients)
        smooth = [sum(shares) / len(shares) for shares in seen]
        smooth = [share / sum(smooth) for share in smooth]
        x = average([of[i][0] for i in clients], smooth)
        if m.control == "mean":
            c = zero
        for i, share in zip(clients, smooth, strict=True):
            before = zero if m.control == "mean" else controls[i]
            scale = 1 if m.control == "mean" else len(clients) / w.n
            change = zip(c, of[i][1], before, strict=True)
            c = [total + share * scale * (new - old) for total, new, old in change]
            controls[i] = of[i][1]
        yield [x] * w.n


def local(w: World, m) -> Served:
    own = [w.model] * w.n
    for r, there in w.rounds:
        own = [train(w, own[i], r, i) if i in there else own[i] for i in range(w.n)]
        yield own


def finetuned(w: World, m) -> Served:
    for r, [x, *_] in enumerate(fedavg(w, m), start=1):
        yield [train(w, x, r + 1, i, epochs=m.epochs) for i in range(w.n)]


def ditto(w: World, m) -> Served:
    x, own = w.model, [w.model] * w.n
    for r, clients in w.rounds:
        near = functools.partial(lambda x, v: m.strength / 2 * squared(v, x), x)
        own = [train(w, own[i], r, i, near) if i in clients else own[i] for i in range(w.n)]
        x = by_size(w, clients, [train(w, x, r, i) for i in clients])
        yield own


def mix(mixed: nn.Module, a: float, v: nn.Module, x: nn.Module) -> nn.Module:
    """`mixed` with the parameters a v + (1 - a) x; its running statistics stay."""
    mixed = deepcopy(mixed)
    for p, q, s in zip(mixed.parameters(), v.parameters(), x.parameters(), strict=True):
        p.data = a * q.data + (1 - a) * s.data
    return mixed


def apfl(w: World, m) -> Served:
    x, a, own, mixtures = w.model, [m.alpha] * w.n, [w.model] * w.n, [w.model] * w.n
    met: set[int] = set()
    for r, clients in w.rounds:
        trained = []
        for i in clients:
            y, v = deepcopy(x), deepcopy(own[i])
            of_y, of_v = w.optimiser(y, r), w.optimiser(v, r)
            for k, (xs, ys) in enumerate(w.batches(r, i)):
                mixtures[i] = mix(mixtures[i], a[i], v, y)
                mixtures[i].zero_grad()
                y.zero_grad()
                cross_entropy(mixtures[i](xs), ys).backward()
                cross_entropy(y(xs), ys).backward()
                slope, three = 0.0, (model.parameters() for model in (mixtures[i], v, y))
                for p, q, s in zip(*three, strict=True):
                    slope += ((q - s) * p.grad).sum().item()
                    q.grad = a[i] * p.grad
                of_y.step()
                of_v.step()
                if m.mixture_step == "every batch" or (k == 0 and m.mixture_step == "first batch"):
                    a[i] = min(max(a[i] - of_y.param_groups[0]["lr"] * slope, 0), 1)
            if m.mixture_step == "round":
                moved = (vector(own[i]) - vector(x)) @ (vector(v) - vector(own[i]))
                a[i] = min(max(a[i] + moved.item(), 0), 1)
            own[i] = v
            trained.append(mix(mixtures[i], a[i], v, y) if m.averaged == "mixtures" else y)
        x = equally(trained)
        met |= {*clients}
        last = [of if i in met or a[i] == 1 else x for i, of in enumerate(mixtures)]
        yield [mix(last[i], a[i], own[i], x) for i in range(w.n)]


def pfedme(w: World, m) -> Served:
    x, own, shares = w.model, [w.model] * w.n, [1 - m.beta, m.beta]
    for r, clients in w.rounds:
        sent = []
        for i in clients:
            y, theta = deepcopy(x), deepcopy(x)
            optimiser = w.optimiser(theta, r)
            for xs, ys in w.batches(r, i):
                if m.restart:
                    theta.load_state_dict(theta.state_dict() | dict(y.named_parameters()))
                for _ in range(m.steps):
                    optimiser.zero_grad()
                    loss = cross_entropy(theta(xs), ys) + m.lam / 2 * squared(theta, y)
                    loss.backward()
                    optimiser.step()
                for p, q in zip(y.parameters(), theta.parameters(), strict=True):
                    p.data -= m.eta * m.lam * (p.data - q.data)
            own[i] = theta
            y.load_state_dict(theta.state_dict() | dict(y.named_parameters()))
            sent.append(y)
        x = average([x, equally(sent)], lambda name: [0, 1] if "running" in name else shares)
        yield list(own)


def mocha(w: World, m) -> Served:
    """With the objective as it stands: the matrix of all models, and tr(W Omega W^T)."""
    own, ones = [w.model] * w.n, torch.ones(w.n, w.n, dtype=torch.float64)
    omega = torch.linalg.matrix_power(torch.eye(w.n, dtype=torch.float64) - ones / w.n, 2)
    c = m.coefficient * 10 ** -(math.floor(math.log10(len(vector(w.model))) + 1) + 1)
    for r, there in w.rounds:
        columns = [vector(model) for model in own]

        def penalty(model: nn.Module, i: int, columns=columns) -> Tensor:
            own = torch.cat([p.reshape(-1) for p in model.parameters()])
            matrix = torch.stack([*columns[:i], own, *columns[i + 1 :]], 1)
            return c * (matrix.square().sum() + torch.trace(matrix @ omega @ matrix.T))

        own = [
            train(w, model, r, i, functools.partial(penalty, i=i)) if i in there else model
            for i, model in enumerate(own)
        ]
        yield own


def cfl(w: World, m) -> Served:
    """With SciPy's agglomeration."""
    own, updates, clusters, unit = [w.model] * w.n, {}, [list(range(w.n))], 1.0
    for r, clients in w.rounds:
        trained = {i: train(w, own[i], r, i) for i in clients}
        updates |= {i: vector(trained[i]) - vector(own[i]) for i in clients}
        if r == 1:
            unit = sum(updates[i].norm() for i in clients) / len(clients)
        for cluster in list(clusters):
            met = [updates[i] for i in cluster if i in updates]
            if r < m.start_round or not len(cluster) == len(met) > 2:
                continue
            still = (sum(met) / len(met)).norm() < m.epsilon_1 * unit
            if still and max(u.norm() for u in met) > m.epsilon_2 * unit:
                tree = linkage(torch.stack(met).numpy(), "complete", "cosine")
                part = dict(zip(cluster, fcluster(tree, 2, "maxclust"), strict=True))
                clusters.remove(cluster)
                for i in cluster:  # a part waits until all of its clients have taken part anew
                    del updates[i]
                clusters += [[i for i in cluster if part[i] == which] for which in (1, 2)]
        for cluster in clusters:
            if there := [trained[i] for i in cluster if i in clients]:
                mean = equally(there)
                own = [mean if i in cluster else model for i, model in enumerate(own)]
        yield own


def parts_shared(w: World, kept: Callable[[str], bool], local_training: Callable) -> Served:
    own = [w.model] * w.n
    for r, clients in w.rounds:
        trained = {i: local_training(own[i], r, i) for i in clients}
        mean = by_size(w, clients, list(trained.values())).state_dict()
        own = [deepcopy(trained.get(i, own[i])) for i in range(w.n)]
        for model in own:
            shared = {name: value for name, value in mean.items() if not kept(name)}
            model.load_state_dict(model.state_dict() | shared)
        yield own


def fedbn(w: World, m) -> Served:
    norms = {name for name, part in w.model.named_modules() if isinstance(part, nn.BatchNorm1d)}
    return parts_shared(w, lambda name: layer(name) in norms, functools.partial(train, w))


def lg_fedavg(w: World, m) -> Served:
    return parts_shared(w, lambda name: layer(name) in m.local, functools.partial(train, w))


def fedrep(w: World, m) -> Served:
    def head_then_body(start: nn.Module, r: int, i: int) -> nn.Module:
        epochs = w.schedule.local_epochs - m.body_epochs
        for of_head, drawn in (
            (True, {"epochs": max(1, epochs), "purpose": "batches of the head"}),
            (False, {"epochs": m.body_epochs}),
        ):
            start = deepcopy(start)
            for name, p in start.named_parameters():
                p.requires_grad_((layer(name) in m.head) == of_head)
            start = train(w, start, r, i, **drawn)
        return start

    return parts_shared(w, lambda name: layer(name) in m.head, head_then_body)


def fedfomo(w: World, m) -> Served:
    own, affinity = [w.model] * w.n, torch.eye(w.n, dtype=torch.float64)
    for r, clients in w.rounds:
        chance = max(m.epsilon - m.decay * (r - 1), 0)
        trained = {i: train(w, own[i], r, i) for i in clients}
        after, moved = list(own), affinity.clone()
        for i in clients:
            random, others = w.draw("downloads", r, i), [j for j in clients if j != i]
            shuffled = [others[k] for k in torch.randperm(len(others), generator=random).tolist()]
            left, sent = sorted(shuffled, key=lambda j: -affinity[i, j].item()), [i]
            while left and len(sent) < m.n:
                explores = torch.rand((), generator=random).item() < chance
                place = int(torch.randint(len(left), (), generator=random)) if explores else 0
                sent.append(left.pop(place))
            at_start, held = loss_of(own[i], w.validation[i]), w.validation[i]
            falls = {j: at_start - loss_of(trained[j], held) for j in sent}
            weights = {j: fall / distance(trained[j], own[i]) for j, fall in falls.items()}
            for j, weight in weights.items():
                moved[i, j] += weight
            positive = {j: weight for j, weight in weights.items() if weight > 0}
            if positive:
                shares = [weight / sum(positive.values()) for weight in positive.values()]
                after[i] = average([trained[j] for j in positive], shares)
        own, affinity = after, moved
        yield own


def fedfomo_ma(w: World, m) -> Served:
    own = [w.model] * w.n
    for r, clients in w.rounds:
        trained, after = {i: train(w, own[i], r, i) for i in clients}, list(own)
        for i in clients:
            whole = loss_of(equally(list(trained.values())), w.validation[i])
            without = {j: equally([trained[k] for k in clients if k != j]) for j in clients}
            gains = {j: loss_of(without[j], w.validation[i]) - whole for j in clients}
            positive = {j: gain for j, gain in gains.items() if gain > 0}
            if positive:
                shares = [gain / sum(positive.values()) for gain in positive.values()]
                after[i] = average([trained[j] for j in positive], shares)
        own = after
        yield own


def layers_of(model: nn.Module) -> tuple[list[str], Callable[[str], str]]:
    """The layers in order; whose weights a tensor has: statistics those of the layer before."""
    names = list(dict.fromkeys(layer(name) for name, _ in model.named_parameters()))

    def described_by(name: str) -> str:
        of = layer(name)
        return names[names.index(of) - ("running" in name)] if of in names else ""

    return names, described_by


class Hypernetwork(nn.Module):
    """Embeddings, hidden layers with ReLU, and heads; its tensors lie in the order of `row`."""

    def __init__(self, clients: int, width: int, hidden: tuple, outputs: int, row: Tensor) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(clients, width)
        sizes = (width, *hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.head = nn.Linear(sizes[-1], outputs)
        self.double()
        nn.utils.vector_to_parameters(row.clone(), self.parameters())

    def forward(self, i: int) -> Tensor:
        x = self.embeddings.weight[i]
        for linear in self.hidden:
            x = linear(x).relu()
        return self.head(x)


def pfedla(w: World, m, rows: Tensor) -> Served:
    names, described_by = layers_of(w.model)
    size = len(names) * w.n
    networks = [Hypernetwork(1, m.embedding, m.hidden, size, row) for row in rows]
    own = [w.model] * w.n

    def weights(i: int) -> dict[str, Tensor]:
        alpha = networks[i](0).reshape(len(names), w.n).softmax(1)
        of = dict(zip(names, alpha, strict=True))
        countable = [name for name in names if not isinstance(w.model.get_submodule(name), NORMS)]
        countable.sort(key=lambda name: -of[name][i].item())  # stable: of equal ones the first
        kept = torch.eye(w.n, dtype=torch.float64)[i]
        return of | dict.fromkeys(countable[: m.retained], kept)

    def mixture(i: int, models: list[nn.Module]) -> nn.Module:
        of = {name: alpha.tolist() for name, alpha in weights(i).items()}
        return average(models, lambda name: of.get(described_by(name), ()))

    for r, clients in w.rounds:
        before = list(own)
        for i in clients:
            given = mixture(i, before)
            own[i] = train(w, given, r, i)
            alpha, raised, length = weights(i), 0, distance(own[i], given) ** 2
            for name, p in given.named_parameters():
                models = zip(alpha[layer(name)], before, strict=True)
                mixed = sum(a * other.get_parameter(name).detach() for a, other in models)
                raised = raised + (mixed * (own[i].get_parameter(name) - p).detach()).sum()
            step = m.step / (length if m.scale == "relative" else 1)
            networks[i].zero_grad()
            (-raised).backward()
            torch.optim.SGD(networks[i].parameters(), step).step()
        yield [mixture(i, own) for i in range(w.n)]


NORMS = (nn.BatchNorm1d, nn.LayerNorm)


def pfedhn(w: World, m, row: Tensor) -> Served:
    width, outputs = m.embedding or 1 + w.n // 4, len(vector(w.model))
    network = Hypernetwork(w.n, width, m.hidden, outputs, row)
    settings = {"momentum": m.momentum, "weight_decay": m.weight_decay}
    optimiser = torch.optim.SGD(network.parameters(), m.step, **settings)
    own = [deepcopy(w.model) for _ in range(w.n)]  # for their running statistics

    def made(i: int) -> nn.Module:
        model = deepcopy(own[i])
        nn.utils.vector_to_parameters(network(i).detach().clone(), model.parameters())
        return model

    for r, clients in w.rounds:
        own = [train(w, made(i), r, i) if i in clients else own[i] for i in range(w.n)]
        optimiser.zero_grad()
        for i in clients:
            theta = network(i)
            theta.backward(-(vector(own[i]) - theta.detach()) / len(clients))
        length = torch.cat([p.grad.reshape(-1) for p in network.parameters()]).norm()
        for p in network.parameters():
            p.grad *= min(1, m.clip / length)
        optimiser.step()
        yield [made(i) for i in range(w.n)]


def similarity(w: World, m) -> Served:
    names, described_by = layers_of(w.model)
    own = [w.model] * w.n
    for r, clients in w.rounds:
        trained = {i: train(w, own[i], r, i) for i in clients}
        of_each = [(own[i], dict(trained[i].named_parameters())) for i in clients]
        updates = [{n: p - x.get_parameter(n) for n, p in of.items()} for x, of in of_each]

        def apart(one: dict, other: dict, of: str) -> float:
            parts = [n for n in one if m.by == "model" or layer(n) == of]
            return math.sqrt(sum((one[n] - other[n]).square().sum().item() for n in parts))

        apart_by = [[[apart(a, b, of) for b in updates] for a in updates] for of in names]
        d = torch.tensor(apart_by, dtype=torch.float64)

        def surplus(log_t: float, d=d) -> float:
            shares = (-d / math.exp(log_t)).softmax(-1)
            entropy = -torch.xlogy(shares, shares).sum(-1) / math.log(d.shape[-1])
            return entropy.mean().item() - m.entropy

        shares = (-d / math.exp(brentq(surplus, -20, 20, xtol=1e-14))).softmax(-1)
        for k, i in enumerate(clients):
            of = {name: shares[at, k].tolist() for at, name in enumerate(names)}
            own[i] = average(
                list(trained.values()), lambda name, of=of: of.get(described_by(name), ())
            )
        yield list(own)
