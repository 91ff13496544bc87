"""One client at a time through one flat module; on several cores several clients, each in a thread
and a module of its own.

The CPU's default.  A client's result does not depend on how many are trained at once, since each is
trained whole by one thread.  Threads take turns in Python, not in a recording's playback.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from pfl_lib.engine import Pool, Work
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.private import by_layer, private_gradient
from pfl_lib.randomness import seeded
from pfl_lib.rows import Batch, Rows, Step, take, velocity


def train(
    modules: Sequence[FlatModule],
    pool: Pool,
    rows: Rows,
    work: Sequence[Work],
    step: Step,
    trained: Sequence[str],
    sgd: dict[str, float],
    watched: bool = True,
) -> Rows:
    """Take n clients' rows, [n, width], through their work, as many clients at once as there are
    modules; returns the `trained` ones.

    BadInput where several at once draw from torch's or NumPy's own stream, since who goes first
    would matter; `watched`: whether the step is a user's own, which alone is looked at.
    """
    out = {of: torch.empty_like(rows[of], memory_format=torch.contiguous_format) for of in trained}
    idle = deque(modules)

    def client(i: int) -> None:
        mine, own = work[i], {name: matrix[i].clone() for name, matrix in rows.items()}
        if sgd["momentum"]:
            own |= {velocity(name): torch.zeros_like(own[name]) for name in trained}
        batches = zip(*mine.placed(), mine.moves or (None,) * len(mine.batches), strict=True)
        module = idle.popleft()
        try:
            gradient, noising = module.gradient, mine.noising
            clipped = noising and by_layer(module, noising.settings.max_norm)
            for number, (index, labels, moves) in enumerate(batches):
                if noising:
                    gradient = private_gradient(clipped, noising)
                take(step, own, gradient, Batch(pool.inputs(index, moves), labels, number, **sgd))
        finally:
            idle.append(module)
        for name in trained:
            out[name][i] = own[name]

    at_once = min(len(modules), len(work))
    if at_once > 1:
        # A thread begins with the number that another one of the process has set last.
        given = {"initializer": torch.set_num_threads, "initargs": (torch.get_num_threads(),)}
        with seeded("a local step", watched), ThreadPoolExecutor(at_once, **given) as threads:
            list(threads.map(client, range(len(work))))
    else:
        for i in range(len(work)):
            client(i)
    return out
