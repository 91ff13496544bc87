"""Every page's run keys are those of `frozen.json`; docs/verdicts.md counts as they are."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

from pfl_lib.pages import registry
from pfl_lib.papers import PRINTED, compare, overview, values
from pfl_lib.papers.judge import ORDERS
from pfl_lib.papers.runs import VALUE
from pfl_lib.results.store import Store
from tests.papers import freeze

DOCS = Path(__file__).resolve().parents[2] / "docs"
VERDICTS = DOCS / "verdicts.md"
# The rows of docs/results.md that count pairs, in its order
GROUPS = [f"latent_D{n}_15_clients" for n in (2, 3, 4, 5, 10)]
COUNTED = [
    *(("pfedla-table1", 0, "non_iid_1_10_clients"), ("pfedla-table2", 0, "non_iid_2_10_clients")),
    *(("fedfomo-table1", 0, f"MNIST, pathological_{n}_clients") for n in (15, 100)),
    *(("fedfomo-table1", 0, f"CIFAR10, pathological_{n}_clients") for n in (15, 100)),
    *(("fedfomo-table2", 0, name) for name in GROUPS),
    *(("fedfomo-table2", 1, name) for name in (GROUPS[0], GROUPS[1], GROUPS[4])),
]


def test_every_page_needs_the_runs_that_it_needed_and_published_results_are_found_by_their_keys():
    """After a change that is meant: `python tests/papers/freeze.py --write`."""
    assert freeze.keys() == json.loads(freeze.FROZEN.read_text(encoding="utf-8"))["keys"]


def test_docs_results_counts_pairs_as_they_are():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    told = re.findall(r"\| (\d+), (\d+), (\d+) \|$", text, re.M)
    find, counts = Store("/nowhere").find, []
    pages = {one.page: one.runs(find) for one in PRINTED}
    for page, profile, place in COUNTED:
        pairs = compare.pairs(pages[page][profile])
        here = (pairs["dataset"] + ", " + pairs["setting"]).str.endswith(place)
        orders = pairs.loc[here & pairs["metric"].str.contains("accuracy"), "order"]
        counts.append(tuple(str((orders == word).sum()) for word in ORDERS))
    assert told == counts


def test_docs_verdicts_says_how_many_pairs_rest_on_one_seed_and_how_close_they_are():
    found = overview.overview(PRINTED, Store("/nowhere").find)
    printed = values.load().set_index(VALUE)["std"].fillna(0)
    known = found.values.set_index(VALUE).assign(std=printed.groupby(level=VALUE).first())
    exact = found.pairs.query("profile == 'paper' and metric.str.contains('accuracy')")
    places = VALUE[:-2]
    higher, lower = (
        known.loc[pd.MultiIndex.from_frame(exact[[*places, side, "metric"]])].reset_index()
        for side in ("higher", "lower")
    )
    order = exact["order"].reset_index(drop=True)
    decided = order.isin(["stands", "turned"])
    one_seed = (higher["seeds"] == 1) | (lower["seeds"] == 1)
    apart, spread = (higher["ours"] - lower["ours"]).abs(), np.hypot(higher["std"], lower["std"])
    near = decided & one_seed & (apart <= 2 * spread)
    close = higher["printed"] - lower["printed"] <= 0.4 + 1e-9
    counts = [
        *(decided.sum(), (decided & ~one_seed).sum(), (decided & one_seed).sum()),
        *(near.sum(), (near & (order == "stands")).sum(), (near & (order == "turned")).sum()),
        *(close.sum(), (close & (higher["paper"] == "waffle")).sum()),
    ]
    text = " ".join(VERDICTS.read_text(encoding="utf-8").split())
    told = re.search(
        r"of the (\d+) decided pairs of accuracies in the exact setting (\d+) rest on five seeds"
        r" and (\d+) on one\. In (\d+) of those on one seed \((\d+) stand, (\d+) are turned\) .*"
        r" (\d+) clear pairs, (\d+) of them WAFFLE's, are printed at most 0\.4",
        text,
    )
    assert told and [*map(int, told.groups())] == counts


def test_docs_verdicts_says_how_far_mocha_is_from_local():
    store, found = Store("/nowhere"), {}
    for spec in registry.page("fedfomo-table2").needed("paper").specs:
        name, of = spec.method.name, spec.partition
        if spec.seed == 1 and name in ("local", "mocha") and of.groups <= 5 and not of.by_labels:
            found[of.groups, name] = store.find(spec).accuracy_by_round().loc[6:20]
    apart = [100 * (found[n, "mocha"] - found[n, "local"]) for n in (2, 3, 4, 5)]
    apart = np.concatenate(apart)
    text = " ".join(VERDICTS.read_text(encoding="utf-8").split())
    told = f"deviation of their difference is {apart.std(ddof=1):.2f} points, and the largest"
    assert len(apart) == 60 and f"{told} {np.abs(apart).max():.2f}." in text
