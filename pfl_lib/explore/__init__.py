"""Results and partitions to turn by hand: each function returns an `Explorer`."""

from pfl_lib.display.play import Explorer
from pfl_lib.explore.of_methods import methods
from pfl_lib.explore.of_partition import partition
from pfl_lib.explore.of_training import live
from pfl_lib.explore.of_weights import matrix, weights

__all__ = ["Explorer", "live", "matrix", "methods", "partition", "weights"]
