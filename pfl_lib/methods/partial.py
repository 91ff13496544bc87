"""What FedBN, FedRep and LG-FedAvg share: clients keep some layers, the server averages the others.

The state is all clients' models, {"theta": [N, P], "statistics": [N, S]}: rows that agree in the
averaged layers.  A layer's running statistics go where its parameters go.
"""

from collections.abc import Collection

from pfl_lib.engine.layout import Layer
from pfl_lib.errors import BadInput
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.fedavg import averaging_weights
from pfl_lib.rows import Rows, average, weights_of_all, with_models


def check_names(name: str, names: object) -> None:
    """BadInput unless `names` is a tuple of different names."""
    if not isinstance(names, tuple) or not all(isinstance(one, str) for one in names):
        raise BadInput(f'{name} {names!r}: give a tuple of layers\' names, such as ("fc3",)')
    if len(set(names)) < len(names):
        raise BadInput(f"{name} {names!r}: name each layer once")


def shared_layers(fed: Federation, kept: Collection[str]) -> list[Layer]:
    """The layers that the server averages: all but those `kept`; BadInput for an unknown name."""
    for name in kept:
        fed.layout.layer(name)
    return [layer for layer in fed.layout.layers if layer.name not in kept]


def averaged(
    fed: Federation,
    state: Rows,
    clients: list[int],
    trained: Rows,
    shared: list[Layer],
    weighting: str,
) -> tuple[Rows, dict]:
    """The state and log after `clients` have `trained`: everybody gets the shared layers' average.

    Sent, up and down, are the shared layers alone: so many P-ths of a model.
    """
    weights = averaging_weights(weighting, fed.sizes(clients))
    mean, after = average(weights, trained), with_models(state, clients, trained)
    for layer in shared:
        columns = slice(layer.start, layer.stop)
        after["theta"][:, columns] = mean["theta"][columns]
        columns = slice(layer.statistics_start, layer.statistics_stop)
        after["statistics"][:, columns] = mean["statistics"][columns]
    sent = len(clients) * sum(layer.size for layer in shared) / fed.layout.P
    weights = weights_of_all(weights, clients, len(fed))
    return after, {"weights": weights, "models_up": sent, "models_down": sent}
