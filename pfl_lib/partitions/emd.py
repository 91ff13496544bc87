"""How far clients' labels are from everybody's: FedFomo's earth mover's distance."""

from torch import Tensor

from pfl_lib.data.source import Dataset
from pfl_lib.partitions.base import Partition


def earth_movers_distance(partition: Partition, dataset: Dataset) -> Tensor:
    """Each client's distance, float64 [N], as FedFomo counts it (NVlabs/FedFomo, compute_emd).

    With p the shares of the classes among a client's training examples, and q among all clients'
    together: the sum of |p - q| over the client's classes, plus the sum of |p - q| over everybody's
    classes.  A client's own classes are thus counted twice: of ten equally frequent classes one
    gives 2.7, where the usual sum is 1.8, and one with a few examples of all others nearly 3.6.
    Tables 2 and 5 print clients' mean.
    """
    counts = partition.label_matrix(dataset).double()
    shares = counts / counts.sum(1, keepdim=True)
    everybody = counts.sum(0) / counts.sum()
    apart = (shares - everybody).abs()
    return (apart * (counts > 0)).sum(1) + (apart * (everybody > 0)).sum(1)
