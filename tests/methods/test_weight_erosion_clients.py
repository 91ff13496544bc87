"""Weight Erosion "does not break if users appear or disappear between subsequent rounds" (section
3).
"""

import pytest
import torch
from torch import nn

from pfl_lib.errors import BadInput
from pfl_lib.experiments.runner import Run
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import WeightErosion


def federation(availability: tuple, rounds: int = 6, clients: int = 4) -> Federation:
    """Clients with random examples of their own, all of them apart; client 0 is Alice."""
    draw = torch.Generator().manual_seed(3)
    pairs = [
        (torch.randn(8, 3, generator=draw, dtype=torch.float64), [0, 1] * 4) for _ in range(clients)
    ]
    schedule = Schedule(
        rounds, local_batches=1, order="fixed", batch_size=4, lr=0.5, availability=availability
    )
    module = nn.Linear(3, 2, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    return Federation.from_arrays(
        pairs, pairs, module, schedule, alice=0, device="cpu", dtype=torch.float64
    )


def weights_of(method: WeightErosion, fed: Federation) -> torch.Tensor:
    run = Run(method, fed)
    for _ in run.rounds():
        pass
    return torch.stack(run.weights)


@pytest.mark.parametrize("newcomer", ["mean", "median"])
def test_a_client_that_appears_starts_with_the_mean_or_median_of_the_weights(newcomer):
    """Client 3 appears in round 4.  p_s = 0, so only that round's distance is taken from what it
    starts with.
    """
    method = WeightErosion(p_d=0.05, p_s=0.0, newcomer=newcomer)
    found = weights_of(method, federation(((3, 4, 6),)))
    assert (found[:3, 3] == 0).all() and (found[:3, 1:3] < 1).all()
    known = found[2, :3]
    start = known.mean() if newcomer == "mean" else known.median()
    # Its own distance in round 4 is what the same client loses with any other start: here with p_d
    # from a run that starts at it.
    fed = federation(((3, 4, 6),))
    state = method.start(fed)
    for r in (1, 2, 3):
        state, _ = method.round(fed, state, r)
    known_to = {**state, "weights": torch.where(state["weights"].isnan(), start, state["weights"])}
    expected, _ = method.round(fed, known_to, 4)
    assert found[3, 3] == expected["weights"][3] and found[3, 3] < start < 1


def test_before_it_appears_a_newcomer_changes_nothing():
    three, four = federation((), clients=3), federation(((3, 4, 6),))
    assert torch.equal(
        weights_of(WeightErosion(), three)[:3], weights_of(WeightErosion(), four)[:3, :3]
    )


def test_a_client_that_disappears_counts_no_more_and_comes_back_with_the_weight_it_had():
    fed = federation(((2, 1, 2),))
    method = WeightErosion(p_d=0.05, p_s=0.0)
    state = method.start(fed)
    for r in (1, 2, 3):
        before = state
        state, log = method.round(fed, state, r)
    assert log["weights"][2] == 0 and 0 < before["weights"][2] < 1
    assert state["weights"][2] == before["weights"][2]


def test_alices_absence_is_refused():
    with pytest.raises(BadInput, match=r"Alice \(client 0\) is not available in round 3"):
        weights_of(WeightErosion(), federation(((0, 1, 2),)))
