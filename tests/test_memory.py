"""Memory grows with clients times parameters, and only for methods that keep a model per client."""

import json

import pytest
import torch

from pfl_lib.rows import select_rows, with_rows
from tests.common import fresh

GIB = 2**30

# Runs as `run_one` makes them: two rounds, an evaluation of every model that is read, and the
# result; LeNet-5, an image a client.  One process makes several: the highest peak so far bounds
# each of them.
RUNS = """
import json
import sys
import torch
from pfl_lib import Schedule, models
from pfl_lib.federation import clients
from benchmarks.timing import peak_memory
from pfl_lib.engine import Pool
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import METHODS
from pfl_lib.experiments.training import Run, one_thread

cases, n, participation = json.loads(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
random = torch.Generator().manual_seed(1)
x = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8, generator=random)
y = torch.arange(n) % 10
pool = Pool(x, torch.tensor(1 / 255), torch.tensor(0.0))
split = clients.Split(pool, torch.arange(n).split(1), y.split(1))
held = clients.Clients({"train": split, "test": split}, 10, (1, 28, 28))
schedule = Schedule(2, batch_size=2, lr=0.01, participation=participation)
network = models.Architecture("lenet5", (1, 28, 28), 10)


def measured(name, alice):
    fed = Federation(held, network, schedule, alice=alice, device="cpu")
    before = peak_memory()
    run = Run(METHODS[name](), fed, evaluate_every=2)
    for _ in run.rounds():
        pass
    result = run.result({})
    return before, peak_memory(), len(result.metrics), len(next(iter(result.model.values())))


with one_thread():
    print(json.dumps([measured(*case) for case in cases]))
"""


def peaks(
    cases: list[tuple[str, int | None]], clients: int, participation: float = 1.0
) -> list[list[int]]:
    """For each method and Alice (or None): peak bytes before and after, rows, models held."""
    words = [json.dumps(cases), str(clients), str(participation)]
    return json.loads(fresh(RUNS, *words))


@pytest.mark.timeout(900)  # two long runs
def test_a_thousand_clients_fit_into_two_gib():
    """With a model for Alice, and with one for each client: the methods that hold the most."""
    of_waffle, of_apfl = peaks([("waffle", 0), ("apfl", None)], 1000)
    assert of_waffle[1] < 2 * GIB and of_apfl[1] < 2 * GIB
    assert of_waffle[2:] == [1, 1] and of_apfl[2:] == [1000, 1000]


def test_ten_thousand_clients_of_whom_a_hundredth_takes_part_need_room_for_that_hundredth():
    [(before, after, rows, models)] = peaks([("fedavg", None)], 10_000, participation=0.01)
    assert after < 2 * GIB
    assert after - before < 0.5 * GIB  # all their models would be 2.3
    assert (rows, models) == (10_000, 1)


def test_a_round_of_fedfomo_with_a_hundred_clients_fits_into_one_gib():
    """All take part, each with five candidates; so does a round of FedAvg before it."""
    assert int(fresh("from benchmarks import candidates; print(candidates.memory())")) < GIB


def test_apfl_keeps_a_personal_model_for_alice_alone_where_she_alone_is_read():
    [(before, after, _, models)] = peaks([("apfl", 0)], 300)
    everybody = 300 * 61_706 * 4
    assert models == 1
    assert after - before < 6 * everybody  # the clients' shared models, and what is served


def test_rows_of_all_clients_are_not_copied_and_others_are():
    matrix, rows = torch.zeros(3, 2), torch.ones(2, 2)
    assert select_rows(matrix, [0, 1, 2]) is matrix
    assert select_rows(matrix, [2, 0]).data_ptr() != matrix.data_ptr()
    everybody = torch.ones(3, 2)
    assert with_rows(matrix, [0, 1, 2], everybody) is everybody
    assert with_rows(matrix, [2, 0], rows).tolist() == [[1, 1], [0, 0], [1, 1]]
    assert matrix.count_nonzero() == 0
    one = with_rows(torch.zeros(2).expand(3, -1), [1], rows[:1])
    assert one.tolist() == [[0, 0], [1, 1], [0, 0]]
    turned = select_rows(torch.tensor([[0.0], [1.0]]), [1, 0])
    assert turned.tolist() == [[1], [0]], "all, but in another order"
