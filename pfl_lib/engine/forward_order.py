"""The order in which a network's forward pass reaches its layers.

A network registers its modules in any order, and some of the package's own read a module's weight
without calling the module.  So the pass is watched one tensor operation at a time: a layer is
reached when an operation first reads memory of its row.
"""

from torch import Tensor
from torch.overrides import TorchFunctionMode

from pfl_lib.engine.layout import Layout


class Reads(TorchFunctionMode):
    """Notes in `names` the layers that operations read, each once, in the order of first readings.

    `theta` [P] and `statistics` [S] are the memory that the network's parameters and running
    statistics are views of.  Functions are watched and not the operators below them: watching those
    loads torch's compiler, two seconds in every process.
    """

    def __init__(self, layout: Layout, theta: Tensor, statistics: Tensor) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        ranges = [(layer.name, layer.start, layer.stop) for layer in layout.layers]
        running = [
            (layer.name, layer.statistics_start, layer.statistics_stop) for layer in layout.layers
        ]
        self._owners = {_memory(theta): ranges}
        if layout.S:  # an empty tensor has no memory of its own
            self._owners[_memory(statistics)] = running

    def __torch_function__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for given in (*args, *kwargs.values()):
            for one in given if isinstance(given, list | tuple) else (given,):
                if isinstance(one, Tensor):
                    self._note(one)
        return operation(*args, **kwargs)

    def _note(self, tensor: Tensor) -> None:
        column = tensor.storage_offset()
        for name, start, stop in self._owners.get(_memory(tensor), ()):
            if start <= column < stop:
                self.names[name] = None


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
