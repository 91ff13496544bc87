"""A CSV file of one's own: its clients, its inputs, a run on it, every refusal."""

import dataclasses
import gzip
import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib import Federation, Schedule, models, run
from pfl_lib.experiments.runner import run_one
from pfl_lib.federation import from_csv
from pfl_lib.methods import WeightErosion
from pfl_lib.papers import weight_erosion
from pfl_lib.randomness import permutation
from pfl_lib.results.store import Store
from tests.common import refusal, refused

PEOPLE = """age,town,weight,ill
25,Ayr,70,no
61,Ayr,,yes
33,Bath,80,no
18,Bath,60,no
70,Ayr,90,yes
,Bath,65,yes
20,Ayr,75,yes
44,Bath,85,no
,Ayr,95,no
50,Ayr,55,yes
,Bath,70,yes
""".splitlines()


@pytest.fixture
def table(tmp_path):
    """Write a table of some columns and rows; its path."""

    def write(columns: str, rows) -> Path:
        path = tmp_path / "table.csv"
        path.write_text("\n".join([columns, *rows]))
        return path

    return write


@pytest.fixture
def people(table):
    return table(PEOPLE[0], PEOPLE[1:])


BY_AGE = {"label": "ill", "split_by": "age", "bins": (25, 50), "alice": 0}


def rows_of(clients, split: str, client: int) -> list[int]:
    return sorted(clients.splits[split].index[client].tolist())


def test_a_share_of_each_clients_training_rows_is_held_out_to_validate_on(people):
    given = {"label": "ill", "split_by": "age", "bins": (50,), "alice": 0}
    whole, held = (from_csv.from_csv(people, **given, validation=share) for share in (0, 0.4))
    assert "validation" not in whole.splits and len(held) == 3
    for client in range(3):
        train, kept = (rows_of(held, split, client) for split in ("train", "validation"))
        assert sorted(train + kept) == rows_of(whole, "train", client) and len(kept) == 1
        assert rows_of(held, "test", client) == rows_of(whole, "test", client)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_rows_to_validate_on_are_drawn_by_the_seed(people, seed):
    given = {"label": "ill", "split_by": "age", "bins": (50,), "alice": 0, "seed": seed}
    whole, held = (from_csv.from_csv(people, **given, validation=share) for share in (0, 0.4))
    for client, rows in enumerate(whole.splits["train"].index):
        [first] = permutation(len(rows), seed, "validation", client)[:1]
        assert rows_of(held, "validation", client) == [rows[first]]


def test_labels_that_are_fractions_and_names_that_differ_in_case_alone_are_told(table, capsys):
    rows = [f"{k / 2},{town}" for town in ("Ayr", "ayr") for k in (1, 2, 3, 4)]
    from_csv.from_csv(
        table("dose,town,age", [f"{row},{k}" for k, row in enumerate(rows)]), "dose", "town"
    )
    told = capsys.readouterr().err
    assert "dose holds fractions, a measurement? Its 4 values are the classes" in told
    assert "clients by town differ in case alone: 0 Ayr, 1 ayr" in told


def test_bins_make_a_client_each_and_unknown_values_the_last_with_their_rows_labels(people):
    found = from_csv.from_csv(people, **BY_AGE)
    assert len(found) == 4
    assert rows_of(found, "train", 1) == [2, 7, 9] and rows_of(found, "train", 2) == [1, 4]
    ill = [0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1]  # the second class in order
    for client in (1, 2, 3):
        split = found.splits["train"]
        assert split.labels[client].tolist() == [ill[row] for row in split.index[client].tolist()]
    assert found.classes == 2
    packed = people.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(people.read_bytes()))
    again = from_csv.from_csv(packed, **BY_AGE).splits["train"]
    assert torch.equal(again.pool.x, found.splits["train"].pool.x)
    assert rows_of(found, "train", 3) == [5, 8, 10]
    tested, trained = rows_of(found, "test", 0), rows_of(found, "train", 0)
    assert sorted(tested + trained) == [0, 3, 6] and len(tested) == 2


def test_numbers_are_standardised_gaps_filled_and_words_become_columns(people):
    """weight: ten known of median (70 + 75) / 2 = 72.5, which fills the gap first."""
    found = from_csv.from_csv(people, inputs=["weight", "town"], **BY_AGE)
    x = found.splits["train"].pool.x
    weights = [70, 72.5, 80, 60, 90, 65, 75, 85, 95, 55, 70]
    mean = sum(weights) / 11
    std = math.sqrt(sum((w - mean) ** 2 for w in weights) / 11)
    assert x[:, 0].tolist() == pytest.approx([(w - mean) / std for w in weights], abs=1e-6)
    assert x[:, 1].tolist() == [0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1]  # Bath


def test_without_bins_each_value_is_a_client_and_is_no_input(people):
    found = from_csv.from_csv(people, label="ill", split_by="town")
    together = [sorted(rows_of(found, "train", i) + rows_of(found, "test", i)) for i in (0, 1)]
    assert together == [[0, 1, 4, 6, 8, 9], [2, 3, 5, 7, 10]]
    assert found.input_shape == (2,)  # age and weight


def test_the_seed_shuffles_rows_and_nothing_else(people):
    one, same, other = (
        torch.cat([of.splits[split].index[0] for split in ("test", "train")]).tolist()
        for of in (from_csv.from_csv(people, "ill", "town", seed=seed) for seed in (0, 0, 5))
    )
    assert one == same != other and sorted(one) == sorted(other)


def test_weight_erosion_runs_on_it(people):
    clients = from_csv.from_csv(people, **BY_AGE)
    make, schedule = lambda: models.build("linear", (3,), 2), Schedule(4, batch_size=2, lr=0.5)
    result = run("weight_erosion", federation=Federation(clients, make, schedule, alice=0))
    assert result.weights.shape == (4, 4) and 0 <= result.last_accuracy <= 1
    refused("client 1 has no test examples, so her", Federation, clients, make, schedule, alice=1)


def test_flags_with_gaps_are_an_input_and_numbers_beside_words_are_words(table):
    flags, labels = ("True", "False", ""), ("0", "1", "yes")
    rows = [f"{'ab'[k % 2]},{flags[k % 3]},{labels[k // 4]}" for k in range(12)]
    found = from_csv.from_csv(table("site,smokes,ill", rows), label="ill", split_by="site")
    assert (len(found), found.classes) == (2, 3) and found.input_shape[0] > 0


def test_names_that_begin_with_zeros_are_texts(table):
    rows = [f"{k % 5},{('1', '01', '007')[k % 3]},{('0', '00')[k // 3 % 2]}" for k in range(24)]
    given = table("x, site ,y", rows), "y", "site"
    assert from_csv.from_csv(*given).names == ("007", "01", "1")
    assert from_csv.from_csv(*given, alice="007").classes == 2


def test_none_is_a_word_and_blanks_around_a_word_do_not_count(table, capsys):
    arms, sick = ("None", "A", "NA "), ("yes", "no ")
    rows = [f"{k % 2} ,{k}.5, {arms[k % 3]},{sick[k // 6]}" for k in range(12)]
    found = from_csv.from_csv(table("site ,age, arm, sick", rows), label="sick", split_by="site")
    told = "inputs are age: a number; arm: 2 words (4 missing); clients by site: 0 0, 1 1;"
    assert told in capsys.readouterr().err and found.classes == 2
    assert found.input_shape == (2,)


def test_numbers_with_a_mark_and_a_blank_are_numbers_and_a_column_may_be_named_as_it_stands(table):
    rows = [
        f"{k % 2},{'? ' if k == 3 else k}, {'-nan' if k == 4 else k / 2},{k % 3}" for k in range(12)
    ]
    path = table("site, dose ,size ,sick ", rows)
    for names in (("site", "sick", "dose"), ("site", "sick ", " dose ")):
        found = from_csv.from_csv(
            path, label=names[1], split_by=names[0], inputs=[names[2], "size"]
        )
        assert found.input_shape == (2,) and found.classes == 3


def test_what_does_not_fit_is_refused_in_one_line(people):
    for given, words in (
        ({"label": "sick"}, "lacks column 'sick'; it has age, town, weight, ill"),
        ({"split_by": "height"}, "lacks column 'height'"),
        ({"inputs": ["weight", "shoe size"]}, "lacks column 'shoe size'"),
        ({"inputs": "age"}, "inputs 'age': give a list of columns, each once, such as ['"),
        ({"inputs": ["weight", "ill"]}, "'ill' is the label, which is to be predicted"),
        ({"split_by": "ill", "bins": None}, "split_by 'ill' is the label: each client"),
        ({"seed": None}, "seed None: give a whole number"),
        ({"validation": 1}, "validation 1: give a share from 0 up to below 1"),
        ({"label": "weight", "split_by": "town", "bins": None}, "is empty in 1 rows: every row"),
        ({"bins": (25, 90)}, "has age above 90: choose other bins"),
        ({"bins": (10, 25)}, "has age up to 10: choose other bins"),
        (
            {"bins": (18.5, 25), "alice": 0},
            "client 0 (up to 18.5) has 1 row, and one half would be empty",
        ),
        (
            {"bins": (25, 50), "alice": 2},
            "client 2 (above 50) has 2 rows, and one half would be empty",
        ),
        ({"bins": (50, 25)}, "bins (50, 25): give one number or more, in ascending order"),
        ({"inputs": 3}, "inputs 3: give a list of columns"),
        ({"inputs": ["age", " age"]}, "give a list of columns, each once"),
        ({"inputs": ["weight", " ill"], "label": "ill "}, "'ill' is the label"),
        ({"label": []}, "label []: give the name of a column"),
        ({"alice": 4}, "alice 4 is not one of the clients 0 to 3: up to"),
        ({"split_by": "town"}, "holds words, which bins cannot split"),
        ({"bins": None}, "is empty in 3 rows: whose are they?"),
    ):
        assert words in refusal(from_csv.from_csv, people, **BY_AGE | given)


def test_three_classes_are_numbered_in_alphabetical_order(table):
    path = table("group,x,y", (f"1,{i},{y}" for i, y in enumerate("cabca")))
    found = from_csv.from_csv(path, label="y", split_by="group")
    held = {
        row: label
        for split in found.splits.values()
        for row, label in zip(split.index[0].tolist(), split.labels[0].tolist(), strict=True)
    }
    assert found.classes == 3 and [held[row] for row in range(5)] == [2, 0, 1, 2, 0]


def test_marks_of_missing_values_are_gaps_and_every_column_is_told(table, capsys):
    rows = (
        f"{i},{'-' if i == 3 else i % 4},{'?' if i == 5 else 'xy'[i % 2]},{i % 2}"
        for i in range(12)
    )
    path = table("id,dose,kind,y", rows)
    for _ in range(2):
        found = from_csv.from_csv(path, label="y", split_by="id", bins=(5,))
    assert found.input_shape == (3,)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "dose: a number (1 missing); kind: 2 words (1 missing)" in told
    assert "id: a number (another in each row: an identifier? leave it out" in told
    assert told.endswith(
        "; clients by id: 0 up to 5, 1 above 5; classes of y: 0 0 (6 rows), 1 1 (6 rows)\n"
    )


def test_the_clients_of_words_and_unknown_values_are_told(table, capsys):
    path = table(
        "site,age,y", (f"{'ns'[i % 2]},{'' if i < 4 else i},{'ab'[i % 2]}" for i in range(12))
    )
    from_csv.from_csv(path, label="y", split_by="site")
    from_csv.from_csv(path, label="y", split_by="age", bins=(7,), inputs=["site"])
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("clients by site: 0 n, 1 s; classes of y: 0 a (6 rows), 1 b (6 rows)")
    assert "clients by age: 0 up to 7, 1 above 7, 2 unknown;" in second


def test_clients_go_by_their_names(table, results_dir):
    make = partial(torch.nn.Linear, 1, 2)
    path = table("site,age,y", (f"{'ns'[i % 2]},{i},{'ab'[i % 2]}" for i in range(12)))
    for alice, read in (("s", ["s"]), (np.int64(0), ["n"]), (None, ["n", "s"])):
        clients = from_csv.from_csv(path, label="y", split_by="site", alice=alice)
        for name in (None, "sites"):
            fed = Federation(clients, make, Schedule(1), alice=alice, name=name, device="cpu")
            where = {"results_dir": results_dir} if name else {}
            assert [*run("fedavg", federation=fed, **where).by_client().index] == read
    wrong = {"clients": clients, "model": make, "schedule": Schedule(1), "alice": "w"}
    refused("alice 'w' is not one of the clients 0 to 1: n, s", Federation, **wrong)
    path = table("site,age,y", (f"{'mw'[i % 2]},{i},{'ab'[i % 2]}" for i in range(12)))
    renamed = from_csv.from_csv(path, label="y", split_by="site")  # the same rows, so stored
    fed = Federation(renamed, make, Schedule(1), name="sites", device="cpu")
    result = run("fedavg", federation=fed, results_dir=results_dir)
    assert [*result.by_client().index] == ["m", "w"] and len([*results_dir.glob("cells/*")]) == 3
    path = table("site,age,y", (f"{1 + i % 2},{i},{'ab'[i % 2]}" for i in range(12)))
    by_site = {"label": "y", "split_by": "site"}
    told = "alice 1: clients have numbers for names: give the name as text, such as '1'"
    assert refusal(from_csv.from_csv, path, **by_site, alice=1) == told
    numbered = from_csv.from_csv(path, **by_site, alice="2")
    assert [len(rows) for rows in numbered.splits["test"].index] == [0, 4]
    fed = Federation(numbered, make, Schedule(1), alice="2", device="cpu")
    assert run("fedavg", federation=fed).save_model(path.with_suffix(".pt")).is_file()


def labelled(classes: int) -> list[str]:
    return ["g,x,y", *(f"1,{i},{i % classes}" for i in range(60))]


def marked(mark: str) -> list[str]:
    return [f"g{mark}dose, mg{mark}y", *(f"{i % 2}{mark}{i},5{',5' * i}" for i in range(8))]


def test_a_table_that_cannot_be_understood_is_refused(table):
    """Of rows of more cells than heads pandas would take the first column for names of rows."""
    one_value = [f"{i % 2},0x1f,{i % 3 % 2}" for i in range(12)]
    for lines, words in (
        (labelled(60), "60 different values (0, 1, 2, 3, 4, ...): a label has 2 to 50 classes"),
        (labelled(1), "1 different value (0): a label has 2 to 50 classes"),
        (["g,y,age,weight", *["0,1,3,2,", "1,0,4,1,"] * 4], "has rows of more cells than its"),
        (marked(";"), "has semicolons between its cells: write commas"),
        (marked("\t"), "has tabs between its cells: write commas"),
        (["g,x,y", *one_value], "each input (x) has one value"),
        (["g,x,y", "1,7,0", "1,7,1", "2,7,0"], "each input (x) has one value"),
        (["g,y, y", *["1,0,0"] * 4], "has two columns 'y': give each a name of its own"),
    ):
        path = table(lines[0], lines[1:])
        assert words in refusal(from_csv.from_csv, path, label="y", split_by="g")


def test_a_column_that_is_no_input_is_refused(table):
    for cells, words in (
        (["n.a.!", *range(8)], "holds numbers but for 1 rows, such as 'n.a.!': mend them"),
        (["1,5", "-2,25"] * 5, "numbers with a comma or a sign, such as '1,5', which would"),
        (["$1", "$2.50"] * 5, "such as '$1', which would count as words"),
        (["1.000,50", "\u22122"] * 5, "such as '1.000,50', which would count as words"),
        ([1e300, *range(9)], "holds 1e+300, too large to be standardised"),
        ([*range(9), "inf"], "holds an infinite number"),
        (["5%", "12.5%"] * 5, "such as '5%', which would count as words: write digits and a point"),
        ([f"name {i % 59}" for i in range(60)], "holds 59 different words in 60 rows; at most 50"),
        ([f"name {i}" for i in range(20)], "in 20 rows; at most 50, and not another in each row"),
    ):
        path = table("group,x,y", (f'{i % 2},"{cell}",{i % 3 % 2}' for i, cell in enumerate(cells)))
        assert words in refusal(from_csv.from_csv, path, label="y", split_by="group")


@pytest.mark.parametrize("text", [None, "", "a,b\n"])
def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path, text):
    path = tmp_path / "table.csv"
    if text is not None:
        path.write_text(text)
    assert str(path) in refusal(from_csv.from_csv, path, label="a", split_by="b")


def test_run_takes_the_papers_whole_setting(results_dir):
    setting = {"local_batches": 1, "order": "fixed", "batch_size": 66, "lr": 3.0}
    setting |= {"weight_decay": 1e-3, "rounds": 30, "loss": "half_cross_entropy", "alice": 2}
    where = {"dataset": "breast_cancer", "partition": "radius_strict", "results_dir": results_dir}
    result = run(WeightErosion(counting="after"), **setting, **where)
    profile = weight_erosion.ALL_PROFILES["quick"]
    table = weight_erosion.FIGURES.only(datasets=["AGE_STRICT"])
    spec = table.spec("client 2", "WE", profile, 1)
    expected = run_one(dataclasses.replace(spec, measures=()), Store(results_dir))
    assert result.config["key"] == expected.config["key"]


def test_new_rows_are_prepared_as_the_files_were(people):
    given = {"label": "ill", "split_by": "town", "inputs": ["age", "weight", "town"]}
    clients, rows = from_csv.from_csv(people, **given), pd.read_csv(people)
    for given in (people, rows, rows.rename(columns="{} ".format)):
        assert torch.equal(clients.prepare(given), clients.splits["train"].pool.x)
    assert torch.equal(clients.prepare(rows[::-1]).flip(0), clients.prepare(people))
    assert (clients.class_names, clients.names) == (("no", "yes"), ("Ayr", "Bath"))
    refused("^the rows lack column 'town': give age, ", clients.prepare, rows[["age", "weight"]])
    other = rows.assign(town="Cork")
    refused(
        "^column 'town' of the rows holds 'Cork', unknown .*: give Ayr, Bath$",
        clients.prepare,
        other,
    )
    twice = pd.concat([rows, rows[["age"]]], axis=1)
    refused("^the rows have a column twice: give each of age, ", clients.prepare, twice)
    other = rows.assign(age="old")
    refused("^column 'age' of the rows holds 'old': give numbers$", clients.prepare, other)


def test_new_rows_have_the_files_own_marks_of_what_is_missing(table):
    rows = ["a,None,1,0", "a,aspirin,-,1", "a,aspirin, 3 ,1", "b,,2,0", "b,None,5,1", "b,None,9,0"]
    clients = from_csv.from_csv(table("g, drug ,dose,y", rows), "y", "g")
    new = clients.prepare(table("g, drug ,dose,y", rows[:4]))
    assert torch.equal(new, clients.splits["train"].pool.x[:4])
    assert new[:, 1].tolist() == [0, 1, 1, 0], "None is a word, the most frequent"


def test_a_first_column_of_row_numbers_alone_is_no_input(table):
    for rows in (range(3), range(1, 4), (0, 2, 1)):
        path = table(",g,a,y", [f"{row},x,{k},{k % 2}" for k, row in enumerate(rows)])
        inputs = 2 if rows == (0, 2, 1) else 1
        assert from_csv.from_csv(path, "y", "g").input_shape == (inputs,)


def test_whole_numbers_of_many_digits_are_told_apart(table):
    path = table("g,a,y", [f"{10**20 + k % 2},{k},{10**25 + k % 3}" for k in range(12)])
    clients = from_csv.from_csv(path, "y", "g")
    assert clients.names == (f"{10**20}", f"{10**20 + 1}") and clients.classes == 3
