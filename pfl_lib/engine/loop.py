"""One client at a time through one flat module; on several cores several clients, each in a thread
and a module of its own.

The CPU's default.  A client's result does not depend on how many are trained at once, since each is
trained whole by one thread.  Threads wait for each other's turn in Python, not in a recording's
playback.
"""

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from pfl_lib.engine import Pool, Work
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.private import by_layer, private_gradient
from pfl_lib.rows import Batch, Rows, Step, take, velocity


class Loop:
    """Local training through `modules`, as many clients at once as there are modules.

    Steps that draw from torch's generator are taken one client after the other, since their numbers
    would depend on who goes first.
    """

    def __init__(self, modules: Sequence[FlatModule]) -> None:
        self.modules = modules
        self.random = False  # until a step is seen to draw numbers

    def train(
        self,
        pool: Pool,
        rows: Rows,
        work: Sequence[Work],
        step: Step,
        trained: Sequence[str],
        sgd: dict[str, float],
    ) -> Rows:
        """Take n clients' rows, [n, width], through their work; returns the `trained` ones."""
        out = {
            name: torch.empty_like(rows[name], memory_format=torch.contiguous_format)
            for name in trained
        }
        idle: queue.SimpleQueue[FlatModule] = queue.SimpleQueue()
        for module in self.modules:
            idle.put(module)

        def client(i: int) -> None:
            mine, own = work[i], {name: matrix[i].clone() for name, matrix in rows.items()}
            if sgd["momentum"]:
                own |= {velocity(name): torch.zeros_like(own[name]) for name in trained}
            batches = zip(*mine.placed(), mine.moves or (None,) * len(mine.batches), strict=True)
            module = idle.get()
            try:
                gradient, noising = module.gradient, mine.noising and mine.noising.afresh()
                clipped = noising and by_layer(module, noising.settings.max_norm)
                for number, (index, labels, moves) in enumerate(batches):
                    if noising:
                        gradient = private_gradient(clipped, noising)
                    batch = Batch(pool.inputs(index, moves), labels, number, **sgd)
                    take(step, own, gradient, batch)
            finally:
                idle.put(module)
            for name in trained:
                out[name][i] = own[name]

        before = torch.get_rng_state()
        at_once = 1 if self.random else min(len(self.modules), len(work))
        if at_once == 1:
            for i in range(len(work)):
                client(i)
            return out
        with ThreadPoolExecutor(at_once) as threads:
            list(threads.map(client, range(len(work))))
        if torch.equal(before, torch.get_rng_state()):
            return out
        self.random = True
        torch.set_rng_state(before)
        return self.train(pool, rows, work, step, trained, sgd)
