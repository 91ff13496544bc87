"""Explorers: results and partitions to turn by hand, in JupyterLab and in the pages built from
notebooks.

Each function returns an `Explorer`, which shows itself as the last line of a cell: as widgets where
somebody watches, as a piece of HTML with native controls on a page that is kept.  That piece needs
nothing from outside, and the keyboard reaches all of it.
"""

from pfl_lib.display.play import Explorer
from pfl_lib.explore.of_methods import methods
from pfl_lib.explore.of_partition import partition
from pfl_lib.explore.of_training import live
from pfl_lib.explore.of_weights import matrix, weights

__all__ = ["Explorer", "live", "matrix", "methods", "partition", "weights"]
