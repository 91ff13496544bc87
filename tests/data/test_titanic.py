"""The Titanic and breast cancer as data sets: preparation by hand, order, files, every refusal."""

import types

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib import data, partitions
from pfl_lib.data import scikit_learn, titanic
from tests.common import refusal, refused

# Specification, section 5.1: passengers and survivors of the clients.
SIZES = {"age_strict": [248, 476, 322, 263], "age_some": [362, 362, 322, 263]}
SURVIVED = [0.460, 0.391, 0.394, 0.278]

# --- preparation ---
FIVE = pd.DataFrame(
    {
        "pclass": [0.0, 1, 2, 2, 2],
        "sex": [1.0, 0, 0, 1, 0],
        "age": [30.0, 16, np.nan, 20, 17],
        "sibsp": [0.0, 1, 0, 0, 0],
        "parch": [0.0, 0, 2, 0, 0],
        "fare": [10.0, 20, -1, 30, 41],
        "embarked": [0.0, 1, 2, np.nan, 2],
    }
)


def prepared(as_run: bool) -> np.ndarray:
    return titanic.prepared(FIVE, as_run).to_numpy()


def test_inputs_stand_in_the_papers_order():
    """fare, sex, Cherbourg, Queenstown, alone, first class, second class, age, minor."""
    found = prepared(as_run=True)
    assert found[:, 1].tolist() == [1, 0, 0, 1, 0]
    assert found[:, 2:4].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]
    assert found[:, 4].tolist() == [1, 0, 0, 1, 1]
    assert found[:, 5:7].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]
    assert len(titanic.TITANIC_INPUTS) == found.shape[1] == 9


def test_the_fare_is_standardised_with_the_missing_one_as_it_is():
    """Mean of 10, 20, -1, 30, 41: 20; squares sum to 1082; sample variance 270.5."""
    assert prepared(True)[:, 0] == pytest.approx((FIVE["fare"] - 20) / 270.5**0.5)


def test_ages_are_standardised_over_the_known_ones_before_gaps_get_their_median():
    """Known 30, 16, 20, 17: mean 20.75, sample variance (85.5625 + 22.5625 + 0.5625 + 14.0625) / 3
    = 40.9167, median 18.5.
    """
    filled = np.array([30, 16, 18.5, 20, 17])
    assert prepared(True)[:, 7] == pytest.approx((filled - 20.75) / 40.916666667**0.5)


def test_a_minor_is_16_or_younger_and_an_unknown_age_a_fraction_of_minors():
    """One of four known ages is a minor's; the authors' slip: one of five is unknown."""
    assert prepared(as_run=False)[:, 8].tolist() == [0, 1, 0.25, 0, 0]
    assert prepared(as_run=True)[:, 8].tolist() == [0, 1, 0.2, 0, 0]


def test_the_passengers_stand_in_the_order_of_the_authors_table(titanic_dir):
    """Their notebook prints ages 30, 37, 28, 18, -1, 56, ... (preprocessing, cell 9)."""
    ages = data.load("titanic", titanic_dir).columns["age"]
    assert ages[[0, 1, 2, 3, 5, 6, 7, -2, -1]].tolist() == [30, 37, 28, 18, 56, 40, 45, 31, 36]
    assert ages[4].isnan() and int(ages.isnan().sum()) == 263


def test_the_prepared_titanic_has_the_specifications_numbers(titanic_dir):
    titanic = data.load("titanic_as_run", titanic_dir)
    assert titanic.train_x.shape == (1309, 9) and titanic.train_x.dtype == torch.float32
    assert titanic.train_x is titanic.test_x
    assert titanic.classes == 2 and int(titanic.train_y.sum()) == 500
    unknown = titanic.columns["age"].isnan()
    assert titanic.train_x[unknown, 8].unique().item() == pytest.approx(263 / 1309)
    median = (28 - 29.8811) / 14.4135
    assert titanic.train_x[unknown, 7].unique().item() == pytest.approx(median, abs=1e-4)
    sound = data.load("titanic", titanic_dir)
    assert torch.equal(sound.train_x[:, :8], titanic.train_x[:, :8])
    assert sound.train_x[unknown, 8].unique().item() == pytest.approx(134 / 1046)
    assert sound.fingerprint != titanic.fingerprint


# Mean cubes of the prepared columns, which tell a shift, a scale and a swap: to be changed together
# with the version in data.DATASETS, which keys of results hold.
CUBES = {
    "breast_cancer": [0.9374, 0.6470, 0.9854, 1.6371, 0.4539]
    + [1.1839, 1.3938, 1.1650, 0.7218, 1.2976],
    "titanic": [4.3585, 0.3560, 0.2063, 0.0940, 0.6035, 0.2468, 0.2116, 0.3244, 0.1028],
    "titanic_as_run": [4.3585, 0.3560, 0.2063, 0.0940, 0.6035, 0.2468, 0.2116, 0.3244, 0.1040],
}


@pytest.mark.parametrize("name", CUBES)
def test_a_table_is_prepared_as_its_version_says(name, request):
    root = request.getfixturevalue("titanic_dir") if "titanic" in name else None
    found = data.load(name, root).train_x.double().pow(3).mean(0).tolist()
    assert found == pytest.approx(CUBES[name], abs=1e-4) and data.DATASETS[name].version == 1


@pytest.mark.parametrize("name", titanic.TITANIC_FILES)
def test_either_file_gives_the_same_data_set(name, titanic_dir, tmp_path):
    source = titanic_dir / "titanic" / name
    if not source.is_file():
        pytest.skip(f"needs {name} in {titanic_dir / 'titanic'}")
    (tmp_path / "titanic").mkdir()
    (tmp_path / "titanic" / name).symlink_to(source)
    alone, usual = data.load("titanic", tmp_path), data.load("titanic", titanic_dir)
    assert torch.equal(alone.train_x, usual.train_x) and torch.equal(alone.train_y, usual.train_y)


def test_openmls_table_goes_into_the_cache_alone_and_is_the_same(titanic_dir, cache, monkeypatch):
    import sklearn.datasets

    published = titanic_dir / "titanic" / "titanic3.csv"
    if not published.is_file():
        pytest.skip(f"needs titanic3.csv in {published.parent}")
    asked = []

    def fetch_openml(data_id, as_frame, parser, data_home):
        asked.append(data_id)
        # as OpenML types them
        frame = pd.read_csv(published).astype({"survived": str, "pclass": float})
        frame = frame.astype({"sex": "category", "survived": "category"})
        return types.SimpleNamespace(frame=frame)

    usual = data.load("titanic", titanic_dir)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    downloaded = data.load("titanic")
    assert asked == [40945] and torch.equal(downloaded.train_x, usual.train_x)
    assert sorted(p.name for p in cache.rglob("*")) == ["titanic", "titanic3.csv"]


@pytest.mark.parametrize("name", ["age_strict", "age_some"])
def test_clients_hold_the_specifications_passengers(name, titanic_dir):
    titanic = data.load("titanic", titanic_dir)
    for alice, size in enumerate(SIZES[name]):
        held = partitions.make(name, titanic, alice=alice)
        sizes = [len(train) + len(test) for train, test in zip(held.train, held.test, strict=True)]
        assert sizes == SIZES[name]
        tested = [1 + size // 2 if i == alice else 0 for i in range(4)]
        assert [len(test) for test in held.test] == tested
        rows = torch.cat([*held.train, *held.test])
        assert sorted(rows.tolist()) == list(range(1309))
        if name == "age_strict":
            own = torch.cat([held.test[alice], held.train[alice]])
            survived = titanic.train_y[own].double().mean().item()
            assert survived == pytest.approx(SURVIVED[alice], abs=5e-4)


def test_breast_cancer_needs_no_files_and_splits_by_radius():
    cancer = data.load("breast_cancer")
    assert cancer.train_x.shape == (569, 10) and int(cancer.train_y.sum()) == 212  # malignant
    assert torch.allclose(cancer.train_x.mean(0), torch.zeros(10), atol=1e-6)
    assert torch.allclose(cancer.train_x.std(0), torch.ones(10), atol=1e-5)
    held = partitions.make("radius_strict", cancer)
    sizes = [len(train) + len(test) for train, test in zip(held.train, held.test, strict=True)]
    assert sizes == [171, 126, 131, 141]
    radius = cancer.columns["mean radius"]
    assert radius[held.train[0]].max() <= 12 and radius[held.train[3]].min() > 16
    some = partitions.make("radius_some", cancer)
    assert len(some.train[0]) == 73  # of 148, the first half of 297


def test_an_altered_breast_cancer_table_is_refused(monkeypatch):
    monkeypatch.setattr(scikit_learn, "CANCER_FINGERPRINT", "0" * 16)
    scikit_learn._cancer.cache_clear()
    refused("fingerprint 8bf2ce2ae2ae9816, expected 0{16}", scikit_learn.read_cancer, None)


# --- refusals ---
HEADER = "pclass,survived,name,sex,age,sibsp,parch,ticket,fare,cabin,embarked\n"
ROW = '1,1,"Allen, Miss. Elisabeth",female,29,0,0,24160,211.3375,B5,S\n'


def test_a_folder_without_a_table_is_told_which_files_would_do(tmp_path):
    said = refusal(data.load, "titanic", tmp_path)
    assert f"titanic_tfds_1309.csv or titanic3.csv missing in {tmp_path / 'titanic'}" in said
    assert "give neither to download the data" in said


def test_a_table_is_not_cut_short():
    told = refusal(data.load, "breast_cancer", images=100)
    assert "breast_cancer is a table, which is taken whole" in told


def test_another_table_is_refused(tmp_path):
    (tmp_path / "titanic").mkdir()
    for text, words in (
        ("", "cannot be read"),
        ('pclass,"sur\n1', "cannot be read|lacks column"),
        ((HEADER + ROW).replace("fare,", "").replace("211.3375,", ""), "lacks column 'fare'; it"),
        (HEADER + ROW, "is damaged or altered: 1 passengers with fingerprint .* af9a5e18681f0968"),
    ):
        (tmp_path / "titanic" / "titanic3.csv").write_text(text)
        refused(words, data.load, "titanic", tmp_path)
