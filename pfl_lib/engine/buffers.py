"""A network whose buffers stay where they are: the engine's rows, or BatchNorm's counters.

The engine gives each client's running statistics to the network as views of a row.  A forward pass
that puts another tensor in a view's place, or counts in a buffer of whole numbers, would carry one
client's statistics over to the next.
"""

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from pfl_lib.errors import BadInput


class KeptBuffers(nn.Module):
    """The network `module`; BadInput for such a forward pass.  BatchNorm's counter of batches may
    change: it decides nothing where momentum is a number.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.places = tuple(
            (part, leaf, f"{name}.{leaf}".lstrip("."))
            for name, part in module.named_modules()
            for leaf, buffer in part._buffers.items()
            if buffer is not None
            and not (leaf == "num_batches_tracked" and isinstance(part, _NormBase))
        )

    def forward(self, x: Tensor) -> Tensor:
        before = [part._buffers[leaf] for part, leaf, _ in self.places]
        versions = [buffer._version for buffer in before]
        logits = self.module(x)
        for (part, leaf, name), buffer, version in zip(self.places, before, versions, strict=True):
            if part._buffers.get(leaf) is not buffer:
                raise BadInput(
                    f"the model's forward replaces buffer {name} by another tensor, which would"
                    f" carry statistics from client to client: write self.{leaf}.copy_(...)"
                )
            if not buffer.is_floating_point() and buffer._version != version:
                raise BadInput(
                    f"the model's forward writes into buffer {name} of whole numbers, which no row"
                    " carries: make it a buffer of fractions, or leave it as it is"
                )
        return logits
