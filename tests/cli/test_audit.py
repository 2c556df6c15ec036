# SPDX-License-Identifier: Apache-2.0
"""``afcl audit`` as a user meets it: a table, JSON, exit codes, one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from afcl.cli import main
from afcl.core.rows import as_rows
from afcl.privacy.grouped import Grouped

RANGES = ("--ranges", "age=-10:110", "--ranges", "dose=-9:25")


def call(capsys, *arguments):
    """Run the command in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three sites of forty rows."""
    where = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    for name in ("north", "south", "east"):
        rows = rng.normal(np.repeat([[20, 2], [80, 9]], 20, axis=0), [4, 1])
        text = "\n".join(f"{x},{y}" for x, y in rows)
        (where / f"{name}.csv").write_text(f"age,dose\n{text}\n")
    return [where / f"{name}.csv" for name in ("north", "south", "east")]


def test_a_table_in_words(files, capsys):
    code, out, err = call(capsys, "audit", *files, "--rounds", "3", "--no-lies")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(
        "120 rows of 2 columns at 3 sites; the server asked for 3"
    )
    shown = {line.split("  ")[0]: line for line in lines[2:8]}
    assert "100.0 %" in shown["exact"]
    assert shown["exact"].endswith("none")
    assert shown["grouped(5)"].endswith("kept")
    assert shown["secure+summary"].endswith("kept")
    assert shown["secure+grouped(5)"].endswith("kept")
    assert lines[-1].startswith("'dp' was not audited")


def test_lies_are_told_to_the_sites(files, capsys):
    level = ("--privacy", "grouped(5)", "--rounds", "2", "--runs", "2")
    code, out, _ = call(capsys, "audit", *files, *level)
    assert code == 0
    (line,) = (line for line in out.splitlines() if "other groups  " in line)
    words = line.split()
    assert words[:3] == ["grouped(5)", "other", "groups"]
    assert words[3:] == ["0", "of", "120", "rows", "213", "of", "216", "kept"]
    assert "other groups: asked for groups of other sizes" in out


def test_what_cannot_be_audited_is_said_before_anything_is_run(
    files, capsys, monkeypatch
):
    monkeypatch.setattr("afcl.audit.ladder.find_spec", lambda name: None)
    code, out, err = call(capsys, "audit", *files, "--privacy", "secure")
    assert (code, out) == (2, "")
    assert "needs cryptography: pip install 'afcl[privacy]'" in err
    options = (*RANGES, "--rounds", "2", "--runs", "1", "--no-lies")
    code, out, _ = call(capsys, "audit", *files, *options)
    assert code == 0
    assert "'secure' and 'dp' were not audited: they need cryptography" in out
    assert "secure+summary" not in out


def test_two_sites_are_no_cohort(files, capsys):
    _, out, _ = call(capsys, "audit", *files[:2], "--rounds", "2", "--no-lies")
    assert "'secure' was not audited: it needs at least three sites." in out


def test_everything_as_json(files, capsys):
    code, out, _ = call(
        capsys,
        "audit",
        *files,
        "--privacy",
        "dp(8)",
        "--trials",
        "8",
        *RANGES,
        "--no-lies",
        "--json",
    )
    found = json.loads(out)
    assert (code, found["broken"], found["rounds"]) == (0, False, 30)
    (level,) = found["levels"]
    assert (level["level"], level["recovered"], level["claimed"]) == ("dp(8)", 0, 8)
    assert {"silhouette", "ari", "bytes", "nearest", "attacks"} <= level.keys()


def test_a_broken_promise_is_exit_code_one(files, capsys, monkeypatch):
    monkeypatch.setattr(Grouped, "view", lambda self, X, *_: as_rows(X).table())
    code, out, _ = call(capsys, "audit", *files, "--privacy", "grouped(5)")
    assert code == 1
    assert "BROKEN grouped(5): " in out


def test_a_terminal_of_eighty_columns_holds_the_table(files, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    levels = ("--privacy", "exact", "--privacy", "secure")
    limits = ("--rounds", "2", "--runs", "1")
    code, out, err = call(capsys, "audit", *files, *levels, *limits)
    assert code == 0
    for line in ("secure+grouped(5): messages", "secure+grouped(5): one puppet"):
        assert line in err
    for word in ("recovered", "promise", "100.0 %", "secure+grouped(5)", "kept"):
        assert word in out
    assert "…" not in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--privacy", "dp(8)"), "--ranges COLUMN=LOW:HIGH"),
        (("--privacy", "nothing"), "privacy 'nothing' is unknown"),
        (("--privacy", "grouped(50)"), "needs at least 50"),
        (("--ranges", "age=0:1"), "give bounds for dose too"),
        (("--privacy", "secure", "--cohort", "2"), "at least 3"),
        (("--privacy", "secure", "--cohort", "4"), "there are 3"),
        (("--rounds", "0"), "rounds is 0"),
        (("--columns", "weight"), "weight"),
        (("--rounds", "many"), "many"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(files, capsys, arguments, text):
    code, out, err = call(capsys, "audit", *files, *arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1


def test_categories_and_gaps_are_audited_as_they_are_run(tmp_path, capsys):
    rng = np.random.default_rng(0)
    paths = []
    for name in ("north", "south"):
        kinds = rng.permutation(np.repeat(["a", "b", "c"], [20, 17, 3]))
        ages = rng.normal(50, 9, 40)
        lines = [f"{age:.1f},{kind}" for age, kind in zip(ages, kinds, strict=True)]
        lines[3] = f",{kinds[3]}"
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(["age,kind", *lines, ""]))
    limits = ("--rounds", "2", "--runs", "1", "--no-lies", "--missing", "impute")
    code, out, _ = call(capsys, "audit", *paths, *limits, "--ranges", "age=0:100")
    assert code == 0
    assert "80 rows of 3 columns at 2 sites" in out
    assert "of 4 of 4 levels at sites the number of rows follows" in out
    assert "'dp' was not audited: declare the levels of kind" in out
    level = ("--privacy", "dp(8)", "--ranges", "age=0:100")
    code, _, err = call(capsys, "audit", *paths, *limits, *level)
    assert code == 2
    assert "the levels of kind must not come from the rows" in err
