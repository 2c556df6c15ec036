# SPDX-License-Identifier: Apache-2.0
"""What is added by one line is known everywhere."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from afcl import AFCL
from afcl.cli import main
from afcl.core import indices
from afcl.core.protocol import keep_nothing
from afcl.core.rows import as_rows
from afcl.exceptions import InputError
from afcl.privacy import Level, parse_level
from afcl.privacy.levels import _parsed
from afcl.privacy.protection import Protection
from afcl.registry import (
    INDICES,
    LEVELS,
    Index,
    PrivacyLevel,
    register_index,
    register_level,
)
from afcl.report.words import higher_is_better, index_name


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    spots = [(0, 0), (9, 0), (0, 9)]
    return np.concatenate([rng.normal(spot, 1, (60, 2)) for spot in spots])


@pytest.fixture
def toy():
    """An index that prefers k = 4, and is not defined for k = 3."""

    def distance(partition: indices.Partition) -> float | None:
        k = len(partition.counts)
        return None if k == 3 else abs(k - 4.25)

    index = Index("toy", "a toy", distance, higher_is_better=False)
    register_index(index)
    yield index
    del INDICES["toy"]


def test_a_new_index_is_on_the_path_and_chooses(rows, toy):
    model = AFCL(criterion="toy", max_clusters=6, random_state=0).fit(rows)
    assert model.n_clusters_ == 4
    assert list(model.path_.k) == [2, 3, 4, 5, 6]
    expected = [2.25, np.nan, 0.25, 0.75, 1.75]
    np.testing.assert_allclose(model.path_.scores["toy"], expected)


def test_a_new_index_is_known_to_command_line_files_and_report(rows, toy, tmp_path):
    site, out = tmp_path / "site.csv", tmp_path / "out"
    np.savetxt(site, rows, delimiter=",", header="u,v", comments="")
    arguments = ["run", str(site), "--out", str(out), "--max-clusters", "6"]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--criterion", "toy"])
    with open(out / "path.csv") as file:
        path = list(csv.DictReader(file))
    assert [level["toy"] for level in path] == ["2.25", "", "0.25", "0.75", "1.75"]
    assert json.loads((out / "result.json").read_text())["n_clusters"] == 4
    assert "A toy" in (out / "report.html").read_text()
    assert (index_name("toy"), higher_is_better("toy")) == ("A toy", False)


def test_every_index_has_a_formula():
    known = indices.Partition(*(np.ones(2), np.eye(2), np.ones(2)), 0.5, 0.25)
    assert set(indices.scores_of(known)) == set(INDICES)
    assert [index.name for index in INDICES.values()] == list(INDICES)


def test_names_are_taken_once(toy):
    register_index(toy)
    for name in ("auto", "ch", "toy"):
        with pytest.raises(InputError, match=f"the name '{name}' is taken"):
            register_index(Index(name, "another", lambda partition: 0.0))


# ------------------------------------------------------------------ privacy levels


class Rounded(Protection):
    """Summaries of rows that were rounded first."""

    seen: list[np.ndarray] = []

    @classmethod
    def read(cls, family, inside, text):
        if inside is None or not inside.isdecimal():
            raise InputError(f"privacy {text!r}: say how many digits, as in rounded(2)")
        return Level(family, detail=inside)

    def view(self, X, rng, keep=keep_nothing):
        rounded = np.round(as_rows(X).table(), int(self.level.detail))
        self.seen.append(rounded)
        return rounded


@pytest.fixture
def rounded():
    level = PrivacyLevel(
        "rounded",
        ("rounded(2)",),
        ("default",),
        2,
        Rounded,
        "no row left its site, summaries of rounded rows did",
        "Rows are rounded to {inside} digits before {min_cell} or more are summed up.",
    )
    register_level(level)
    Rounded.seen.clear()
    yield level
    del LEVELS["rounded"]
    _parsed.cache_clear()


@pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
def test_a_new_level_runs(rows, rounded):
    clients = np.arange(len(rows)) % 3
    model = AFCL(privacy="rounded(1)", random_state=0).fit(rows, clients=clients)
    assert model.n_clusters_ == 3
    assert len(Rounded.seen) == 3  # once a client
    assert all(np.array_equal(seen, np.round(seen, 1)) for seen in Rounded.seen)
    with pytest.raises(InputError, match="say how many digits"):
        AFCL(privacy="rounded").fit(rows)


def test_a_new_level_is_read_allowed_and_named(rounded):
    level = parse_level("Rounded( 2 )")
    assert str(level) == "rounded(2)"
    assert parse_level("summary").allows(level)
    assert not parse_level("grouped(5)").allows(level)
    with pytest.raises(InputError, match="secure goes with"):
        parse_level("secure+rounded(2)")
    with pytest.raises(InputError, match=r"dp-rounds\(8\) or rounded\(2\), or with"):
        parse_level("private")
    with pytest.raises(InputError, match=r"choose 'exact' or 'affine'"):
        AFCL(preset="paper", privacy="rounded(2)").fit(np.eye(3))


def test_a_new_level_is_told_by_command_line_and_report(
    rows, rounded, tmp_path, capsys
):
    site, out = tmp_path / "site.csv", tmp_path / "out"
    np.savetxt(site, rows, delimiter=",", header="u,v", comments="")
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(site), "--out", str(out), "--privacy", "rounded(3)"])
    assert "summaries of rounded rows did" in capsys.readouterr().out
    assert "rounded to 3 digits before 5 or more" in (out / "report.html").read_text()


@pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
def test_levels_are_read_once(rounded, monkeypatch):
    read = []
    keep = Rounded.read

    def counted(self, *arguments):
        read.append(arguments)
        return keep(self, *arguments)

    monkeypatch.setattr(Rounded, "read", counted)
    rng = np.random.default_rng(0)
    AFCL(privacy="rounded(2)", random_state=0).fit(rng.random((60, 2)))
    assert len(read) == 1


def test_names_of_levels_are_taken_once(rounded):
    register_level(rounded)
    with pytest.raises(InputError, match="the name 'dp' is taken"):
        register_level(PrivacyLevel("dp", (), (), 0, Rounded, "", ""))


@pytest.mark.parametrize("name", LEVELS)
def test_every_level_has_a_protection(name):
    assert issubclass(LEVELS[name].protection_class(), Protection)
