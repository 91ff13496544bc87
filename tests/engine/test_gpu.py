"""On a GPU: recordings, side by side, give what the loop gives on a CPU, for three networks."""

import pytest
import torch

from pfl_lib import Federation, Schedule
from pfl_lib.engine.graphs import CALLS
from pfl_lib.methods import FedFomo, PFedLA
from pfl_lib.models import Architecture
from pfl_lib.rows import copies

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
NETWORKS = {"tf_cnn": (3, 32, 32), "pfedla_cnn-norm": (3, 32, 32), "lenet5": (1, 28, 28)}


def federation(network: str, device: str) -> Federation:
    """Four clients of 21 to 30 examples: batches of eight, and short last ones of 3 to 6."""
    random, data = torch.Generator().manual_seed(0), []
    for client in range(4):
        x = torch.randn(21 + 3 * client, *NETWORKS[network], generator=random, dtype=torch.float64)
        data.append((x, torch.randint(10, (len(x),), generator=random)))
    model = Architecture(network, NETWORKS[network], 10)
    schedule = Schedule(2, local_epochs=5, batch_size=8, lr=0.01, momentum=0.5)
    held = {"validation": data, "dtype": torch.float64}
    return Federation.from_arrays(data, data, model, schedule, device=device, **held)


class Branching(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


def test_auto_takes_one_after_the_other_what_cannot_be_taken_side_by_side():
    pairs = [(torch.ones(4, 2), torch.tensor([0, 1, 0, 1]))] * 2
    fed = Federation.from_arrays(pairs, pairs, Branching(2, 2), Schedule(1), device="cuda")
    rows, _ = fed.train(copies(fed.initial(), 2), 1, range(2))
    assert fed.engine == "loop" and rows["theta"].isfinite().all()


@pytest.mark.parametrize("network", NETWORKS)
def test_a_recording_gives_the_models_that_the_loop_gives_on_a_cpu(network):
    both = {device: federation(network, device) for device in ("cpu", "cuda")}
    rows = {device: copies(fed.initial(), 4) for device, fed in both.items()}
    for r in (1, 2):
        for device, fed in both.items():
            rows[device], _ = fed.train(rows[device], r, range(4))
        for name, expected in rows["cpu"].items():
            torch.testing.assert_close(rows["cuda"][name].cpu(), expected, rtol=1e-8, atol=1e-9)
    played = both["cuda"]._modules[0].played
    assert played.recordings and max(played.calls.values()) > CALLS


@pytest.mark.parametrize("method", [FedFomo(n=3), PFedLA()])
def test_a_method_serves_the_models_that_it_serves_on_a_cpu(method):
    served = []
    for device in ("cpu", "cuda"):
        fed = federation("pfedla_cnn-norm", device)
        state = method.start(fed)
        for r in (1, 2):
            state, _ = method.round(fed, state, r)
        served.append(method.served(fed, state)["theta"].cpu())
    torch.testing.assert_close(served[1], served[0], rtol=1e-7, atol=1e-8)
