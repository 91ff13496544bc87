"""The order in which a network's forward pass reaches its layers.

A network registers its modules in any order, and some of the package's own read a module's weight
without calling the module.  So the pass is watched one tensor operation at a time: a layer is
reached when an operation is first given one of its tensors.
"""

from torch import nn
from torch.overrides import TorchFunctionMode


class Reads(TorchFunctionMode):
    """Notes in `names` the layers that operations read, each once, in the order of first readings.

    Functions are watched and not the operators below them: watching those loads torch's compiler,
    two seconds in every process.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        tensors = [*module.named_parameters(), *module.named_buffers()]
        self._owners = {
            id(one): name.rpartition(".")[0] for name, one in tensors if one.is_floating_point()
        }

    def __torch_function__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for given in (*args, *kwargs.values()):
            for one in given if isinstance(given, list | tuple) else (given,):
                if id(one) in self._owners:
                    self.names[self._owners[id(one)]] = None
        return operation(*args, **kwargs)
