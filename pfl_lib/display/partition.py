"""Who holds which labels."""

from typing import TYPE_CHECKING

from pfl_lib.display import theme
from pfl_lib.display.partition_card import partition_card

if TYPE_CHECKING:  # annotations only
    from pfl_lib.data.source import Dataset
    from pfl_lib.partitions.base import Partition


def show(dataset: "Dataset", partition: "Partition", title: str) -> None:
    """Show training images by client and label, and each client's size."""
    figure, alt = partition_card(partition, dataset)
    figure.suptitle(title)
    theme.show(figure, f"{title}. {alt}")
