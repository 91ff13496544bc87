"""Training images moved and mirrored at random, whole batches at a time.

"crop_flip" is the pair that CIFAR's training codes share, torchvision's RandomCrop(side, padding=4)
and RandomHorizontalFlip(): each image is padded with black by four pixels on every side, cut back
to its size at a random place, and mirrored in half of the cases.  It works on images as stored, so
that black stays black whatever the normalisation: 0 in bytes.  (Arrays of one's own are stored as
the network takes them: there the padding is a 0 of theirs.)
"""

import torch
from torch import Tensor
from torch.nn import functional as F

AUGMENTATIONS = ("none", "crop_flip")

PADDING = 4


def draw_moves(images: int, generator: torch.Generator) -> Tensor:
    """What happens to each image of a batch, [images, 3] whole numbers: the cut's first row and
    column in the padded image (0 to 8), and 1 where it is mirrored.
    """
    places = torch.randint(2 * PADDING + 1, (images, 2), generator=generator)
    mirrored = torch.randint(2, (images, 1), generator=generator)
    return torch.cat([places, mirrored], 1)


def moved(x: Tensor, moves: Tensor) -> Tensor:
    """New images like x [..., C, H, W], each moved as its row of `moves` [..., 3] says."""
    flat = F.pad(x.reshape(-1, *x.shape[-3:]), (PADDING,) * 4)
    top, left, mirrored = moves.reshape(-1, 3, 1).unbind(1)
    rows = torch.arange(x.shape[-2], device=x.device) + top
    columns = torch.arange(x.shape[-1], device=x.device) + left
    columns = torch.where(mirrored.bool(), columns.flip(1), columns)
    image = torch.arange(len(flat), device=x.device)[:, None, None, None]
    channel = torch.arange(x.shape[-3], device=x.device)[:, None, None]
    return flat[image, channel, rows[:, None, :, None], columns[:, None, None, :]].reshape(x.shape)
