# SPDX-License-Identifier: Apache-2.0
"""Datasets by name: what is in them, what is left out, and how a bad name reads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from afcl.data import make_mixture, make_sd1
from afcl.exceptions import InputError
from afcl_bench.datasets import (
    READINGS,
    dataset_names,
    fingerprint,
    is_drawn,
    load,
    read_csv,
)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """An empty cache, and no way out."""
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AFCL_DATA_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    return path


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(name, **options):
    """The error's message, which must be one line."""
    with pytest.raises(InputError) as caught:
        load(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ------------------------------------------------------------------ names


def test_the_fixed_names_are_sorted_and_complete():
    names = dataset_names()
    assert names == sorted(names)
    assert {"SD1", "mixture", "iris", "IR", "CC", "CC:paper", "TF"} <= set(names)
    assert {n.partition(":")[0] for n in READINGS} == set(
        "IR SE AL AB CC AC SG LI PA AU TF".split()
    )


@pytest.mark.parametrize("name", READINGS)
def test_every_reading_says_in_a_sentence_what_it_does(name):
    reading = READINGS[name]
    assert name in (reading.file, f"{reading.file}:paper")
    assert reading.rule.endswith(".")


def test_an_unknown_name_is_answered_with_the_known_ones(folder):
    message = refusal("nope", folder=folder)
    assert all(name in message for name in dataset_names())
    assert "gaussians:N:D:K" in message
    assert "--data DIR" in message
    assert str(folder) in message
    assert "no folder" in refusal("nope")


def test_only_sets_with_two_readings_have_the_second(folder):
    write(folder, "IR", "A1,class", "1,1")
    assert refusal("IR:paper", folder=folder).endswith("read as IR only")
    assert refusal("CC:raw").endswith("read as CC and CC:paper")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    assert "no such folder" in refusal("IR", folder=tmp_path / "nowhere")


# ------------------------------------------------------------------ generated sets


@pytest.mark.parametrize(
    ("name", "shape", "k"),
    [("SD1", (2300, 2), 4), ("SD2", (2900, 2), 5), ("gaussians:600:3:7", (600, 3), 7)],
)
def test_generated_sets_have_their_shape(name, shape, k, seed):
    data = load(name, seed=seed)
    assert data.name == name
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert np.unique(data.y).tolist() == list(range(k))
    assert data.k == k
    assert data.columns == tuple(f"x{i}" for i in range(1, shape[1] + 1))


@pytest.mark.parametrize("name", ["SD1", "SD2", "mixture", "gaussians:500:2:5"])
def test_the_seed_decides_about_generated_sets(name, seed):
    first = fingerprint(load(name, seed=seed))
    assert first == fingerprint(load(name, seed=seed))
    assert first != fingerprint(load(name, seed=seed + 1))


def test_only_generated_sets_are_drawn():
    drawn = [name for name in dataset_names() if is_drawn(name)]
    assert drawn == ["SD1", "SD2", "mixture"]
    assert is_drawn("gaussians:100:2:3")


def test_generated_sets_are_the_generators_own(seed):
    assert np.array_equal(load("SD1", seed=seed).X, make_sd1(seed)[0])
    X, y = make_mixture(
        4, 2, separation=2.5, imbalance=3, random_state=seed, n_samples=300
    )
    data = load("gaussians:300:2:4", seed=seed)
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)


def test_a_mixture_has_as_many_clusters_as_it_says(seed):
    data = load("mixture", seed=seed)
    assert data.k == np.unique(data.y).size >= 2


@pytest.mark.parametrize(
    "name", ["gaussians:", "gaussians:100:2", "gaussians:100:2:x", "gaussians:9:9:9:9"]
)
def test_misspelt_gaussians_are_told_their_form(name):
    assert "gaussians:N:D:K" in refusal(name)


def test_too_few_rows_for_the_clusters_are_refused():
    assert "need at least" in refusal("gaussians:10:2:8")


# ------------------------------------------------------------------ scikit-learn's


@pytest.mark.parametrize(
    ("name", "shape", "k"),
    [
        ("iris", (150, 4), 3),
        ("breast-cancer", (569, 30), 2),
        ("wine", (178, 13), 3),
        ("digits", (1797, 64), 10),
    ],
)
def test_sets_that_come_with_scikit_learn(name, shape, k, folder):
    write(folder, name, "x,class", "1,1")
    data = load(name, folder=folder)
    assert data.X.shape == shape
    assert data.X.flags.c_contiguous
    assert data.y.dtype == np.int64
    assert data.k == np.unique(data.y).size == k
    assert len(data.columns) == shape[1]


def test_scikit_learn_waits_until_it_is_needed():
    code = (
        "import sys, afcl_bench.datasets; "
        "print([m for m in ('sklearn', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# ------------------------------------------------------------------ the paper's sets


def cancer(folder):
    columns = [f"A{i}" for i in range(1, 32)]
    rows = [
        ",".join([str(842300 + i), *(f"{i}.5" for _ in range(30)), str(2 - i % 2)])
        for i in range(4)
    ]
    return write(folder, "CC", ",".join([*columns, "class"]), *rows)


def test_cc_drops_the_patients_number_and_the_papers_reading_keeps_it(folder):
    cancer(folder)
    clean, paper = load("CC", folder=folder), load("CC:paper", folder=folder)
    assert clean.X.shape == (4, 30)
    assert clean.columns[0] == "A2"
    assert clean.X.flags.c_contiguous
    assert paper.X.shape == (4, 31)
    assert paper.X[:, 0].tolist() == [842300, 842301, 842302, 842303]
    assert np.array_equal(paper.X[:, 1:], clean.X)
    assert clean.k == paper.k == 2
    assert clean.y.tolist() == paper.y.tolist() == [1, 0, 1, 0]


def test_cc_without_the_number_does_not_lose_a_feature(folder):
    write(folder, "CC", "A1,A2,class", "1,2,1")
    assert "has 2 features" in refusal("CC", folder=folder)
    assert load("CC:paper", folder=folder).X.shape == (1, 2)


def test_li_has_four_classes_of_which_the_paper_counts_two(folder):
    write(folder, "LI", "a,b,status_type", "1,2,status", "3,4,2", "5,6,1", "7,8,link")
    clean, paper = load("LI", folder=folder), load("LI:paper", folder=folder)
    assert (clean.k, paper.k) == (4, 2)
    assert clean.y.tolist() == paper.y.tolist() == [3, 1, 0, 2]
    assert np.array_equal(clean.X, paper.X)


def test_ab_counts_the_labels_that_occur_and_the_paper_the_largest(folder):
    write(folder, "AB", "A2,class", "1,9", "2,10", "3,29", "4,9")
    clean, paper = load("AB", folder=folder), load("AB:paper", folder=folder)
    assert (clean.k, paper.k) == (3, 29)
    assert clean.y.tolist() == [0, 1, 2, 0]


def test_au_leaves_the_incomplete_row_out(folder):
    write(folder, "AU", "A1,A2,class", "1,2,1", "3,,1", "5,6,2")
    data = load("AU", folder=folder)
    assert data.X.tolist() == [[1, 2], [5, 6]]
    assert data.y.tolist() == [0, 1]


def test_a_constant_column_stays(folder):
    write(folder, "SG", "A1,A2,class", "9,1,1", "9,2,2")
    assert load("SG", folder=folder).X.tolist() == [[9, 1], [9, 2]]


def test_the_first_file_below_the_folder_in_sorted_order_is_read(folder):
    write(folder, "b/IR", "A1,class", "2,1")
    write(folder, "a/deep/IR", "A1,class", "1,1")
    write(folder, "a/deep/XIR", "A1,class", "3,1")
    assert load("IR", folder=folder).X.tolist() == [[1]]


def test_a_set_that_is_nowhere_says_so(folder):
    message = refusal("CC:paper", folder=folder, fetch=False)
    assert message.startswith(f"CC is not below {folder} and could not be fetched")
    assert "switched off" in message
    assert "put CC.csv" in message
    assert "--data DIR" in refusal("IR", fetch=False)


# ------------------------------------------------------------------ other files


def test_any_other_file_is_a_dataset(folder):
    write(
        folder, "suite/r15", "x1,x2,class", "1,2,b", "3,4,a", "?,6,a", "7,8,", "9,1,c"
    )
    data = load("r15", folder=folder)
    assert data.X.tolist() == [[1, 2], [3, 4], [9, 1]]
    assert data.y.tolist() == [1, 0, 2]
    assert data.k == 3
    assert data.columns == ("x1", "x2")


def test_classes_that_are_numbers_are_sorted_as_numbers(folder):
    path = write(folder, "own", "x,class", "1,10", "2,9", "3,9.0")
    assert read_csv(path)[1].tolist() == [1, 0, 0]


@pytest.mark.parametrize("cell", ["red", "inf"])
def test_a_feature_that_is_no_number_is_named(folder, cell):
    write(folder, "own", "x,colour,class", "1,2,1", f"1,{cell},1")
    message = refusal("own", folder=folder)
    assert "column 'colour', row 2" in message
    assert repr(cell) in message


def test_a_file_without_features_or_rows_is_refused(folder):
    write(folder, "narrow", "class", "1")
    assert "one column" in refusal("narrow", folder=folder)
    write(folder, "holes", "x,class", ",1", "2,")
    assert "every row" in refusal("holes", folder=folder)


def test_a_name_is_no_pattern(folder):
    write(folder, "own", "x,class", "1,1")
    assert "unknown dataset" in refusal("o*", folder=folder)
    assert "unknown dataset" in refusal("/etc/own", folder=folder)


# ------------------------------------------------------------------ fingerprints


def test_a_fingerprint_sees_values_order_and_shape():
    data = load("iris")
    mark = fingerprint(data)
    assert mark == fingerprint(replace(data, name="other", X=np.asfortranarray(data.X)))
    assert mark == fingerprint(replace(data, X=np.where(data.X == 0, -0.0, data.X)))
    assert mark != fingerprint(replace(data, X=data.X[::-1]))
    assert mark != fingerprint(replace(data, y=data.y[::-1]))
    assert mark != fingerprint(replace(data, X=data.X.reshape(300, 2)))
