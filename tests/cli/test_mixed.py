# SPDX-License-Identifier: Apache-2.0
"""Files with categories, gaps and dates, through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from afcl.metrics import adjusted_rand

from .test_commands import call


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Three sites with numbers, a category, a code, dates and names; true kinds."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kinds = []
    for site in ("north", "south", "west"):
        y = rng.integers(0, 3, 90)
        size = np.array([0.0, 4.0, 4.0])[y] + rng.normal(0, 0.4, 90)
        weight = np.array([0.0, 0.0, 4.0])[y] + rng.normal(0, 0.4, 90)
        colour = np.where(
            rng.random(90) < 0.9, np.array(["red", "Blue", "green"])[y], "red"
        )
        frame = pl.DataFrame(
            {
                "size": size,
                "weight": weight,
                "colour": colour,
                "code": y + 1,
                "day": [f"2026-01-{d:02}" for d in rng.integers(1, 28, 90)],
                "name": [f"{site}-{i}" for i in range(90)],
            }
        )
        frame.write_csv(f"{site}.csv")
        kinds.append(y)
    return tmp_path, kinds


FILES = ("north.csv", "south.csv", "west.csv")


def labels_in(folder, site):
    return np.array((folder / "labels" / f"{site}.csv").read_text().split()[1:], int)


def test_texts_are_categories_codes_by_declaration(here, capsys):
    folder, kinds = here
    words = ("run", *FILES, "--out", "o", "--drop", "name", "--category", "code")
    code, _, err = call(capsys, *words)
    assert code == 0
    assert "note: column 'day' left out: dates; --date day counts its days" in err
    result = json.loads((folder / "o" / "result.json").read_text())
    assert result["columns"] == [
        *("size", "weight", "colour=Blue", "colour=green", "colour=red"),
        *("code=1", "code=2", "code=3"),
    ]
    assert result["features"] == [
        {"name": "colour", "levels": ["Blue", "green", "red"]},
        {"name": "code", "levels": ["1", "2", "3"]},
    ]
    assert result["n_clusters"] == 3
    shares = np.array(result["centers"])[:, 5:]
    assert np.abs(shares.sum(axis=1) - 1).max() < 0.05
    found = labels_in(folder / "o", "south")
    assert adjusted_rand(found, kinds[1]) > 0.95
    # New rows: an unknown colour is none of the known ones, a gap is a gap.
    (folder / "new.csv").write_text("code,colour,size,weight\n1,pink,0,0\n3,,4,4\n")
    code, out, _ = call(capsys, "predict", "o", "new.csv", "--missing", "impute")
    assert code == 0
    one, other = (int(label) for label in out.split()[1:])
    assert one == found[np.argmax(kinds[1] == 0)]
    assert other == found[np.argmax(kinds[1] == 2)]
    assert call(capsys, "predict", "o", "new.csv")[0] == 2
    code, out, _ = call(capsys, "predict", "o", "north.csv")
    assert (np.array(out.split()[1:], int) == labels_in(folder / "o", "north")).all()


def test_dates_count_days(here, capsys):
    folder, _ = here
    words = ("run", *FILES, "--out", "o", "--drop", "name,code", "--date", "day")
    assert call(capsys, *words)[0] == 0
    result = json.loads((folder / "o" / "result.json").read_text())
    assert "day" in result["columns"]
    place = result["columns"].index("day")
    assert result["scale"]["span"][place] < 30
    code, out, _ = call(capsys, "predict", "o", "north.csv")
    assert code == 0
    assert len(out.split()) == 91


def test_gaps_and_columns_that_a_site_lacks(here, capsys):
    folder, kinds = here
    frame = pl.read_csv("north.csv").drop("code")
    sizes = [None if i % 9 == 4 else size for i, size in enumerate(frame["size"])]
    frame.with_columns(size=pl.Series(sizes)).write_csv("north.csv")
    words = ("run", *FILES, "--out", "o", "--drop", "name,day", "--category", "code")
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "code" in err or "--missing impute" in err
    code, out, err = call(capsys, *words, "--missing", "impute")
    assert code == 0
    assert (
        "north.csv: 90 rows of 90 have gaps, 100 cells in all (size 10), "
        "nothing in code" in err
    )
    result = json.loads((folder / "o" / "result.json").read_text())
    assert result["n_clusters"] == 3
    found = labels_in(folder / "o", "north")
    assert (found >= 0).all()
    assert adjusted_rand(found, kinds[0]) > 0.9


def test_levels_must_be_declared_where_rows_must_not_tell_them(here, capsys):
    bounds = ("--ranges", "size=-2:6", "--ranges", "weight=-2:6")
    words = ("run", *FILES, "--out", "o", "--drop", "name,day,code", *bounds)
    code, _, err = call(capsys, *words, "--privacy", "dp(8)")
    assert code == 2
    assert "the levels of colour must not come from the rows: give --category" in err
    told = ("--category", "colour=red|blue|green")
    code, _, err = call(capsys, *words, *told, "--privacy", "dp(8)")
    assert code == 0
    code, _, err = call(capsys, *words, "--category", "shape")
    assert code == 2
    assert "--category names 'shape', which is no column in use" in err


def test_bounds_by_whatever_spelling(here, capsys):
    words = ("run", *FILES, "--columns", "size,weight", "--out", "o")
    wrong = ("--ranges", "size=-3:8", "--ranges", "wieght=-3:8")
    code, _, err = call(capsys, *words, *wrong)
    assert code == 2
    assert "--ranges names 'wieght'" in err
    assert "(did you mean 'weight'?)" in err
    right = ("--ranges", "SIZE=-3:8", "--ranges", "Weight =-3:8")
    assert call(capsys, *words, *right)[0] == 0


def test_levels_with_an_order(here, capsys):
    folder, kinds = here
    words = ("run", *FILES, "--drop", "name,day,code", "--out", "o", "--ordinal")
    code, _, err = call(capsys, *words, "colour=red<Blue")
    assert code == 2
    assert "column 'colour', row" in err
    assert "is 'green', which is none of red<Blue" in err
    order = "Colour=red<blue<green"
    assert call(capsys, *words, order)[0] == 0
    result = json.loads((folder / "o" / "result.json").read_text())
    assert result["columns"] == ["size", "weight", "colour"]
    (feature,) = result["features"]
    assert feature["levels"] == ["red", "blue", "green"]
    assert set(feature["centers"]) == {"blue", "green", "red"}
    assert f"{feature['centers'][0]} (" in (folder / "o" / "report.html").read_text()
    (folder / "new.csv").write_text("colour,size,weight\nRED,0,0\ngreen,4,4\n")
    code, out, _ = call(capsys, "predict", "o", "new.csv")
    assert code == 0
    found = labels_in(folder / "o", "north")
    want = [found[np.argmax(kinds[0] == kind)] for kind in (0, 2)]
    assert [int(label) for label in out.split()[1:]] == want
    code, out, _ = call(capsys, "check", *FILES, "--ordinal", order)
    assert code == 0
    assert "ordered: red, blue, green" in out
    # Declared as they are, levels and bounds need no row at dp.
    private = ("--privacy", "dp(8)", "--seeded-noise", "--force")
    bounds = ("--ranges", "size=-3:8", "--ranges", "weight=-3:8")
    assert call(capsys, *words, order, *private, *bounds)[0] == 0


def test_a_robust_scale(here, capsys):
    folder, kinds = here
    text = (folder / "west.csv").read_text().splitlines()
    size, rest = text[1].split(",", 1)
    (folder / "west.csv").write_text("\n".join([text[0], f"9e5,{rest}", *text[2:]]))
    words = ("run", *FILES, "--columns", "size,weight", "--out", "o")
    for odd, line in (
        (("--scale", "best"), "--scale best is unknown: choose minmax or robust"),
        (("--scale", "robust", "--ranges", "size=0:1"), "both say how columns are"),
        (("--scale", "robust", "--privacy", "dp(8)"), "needs public bounds"),
    ):
        code, _, err = call(capsys, *words, *odd)
        assert code == 2
        assert line in err
    (folder / "run.toml").write_text('scale = "robust"\n')
    assert call(capsys, *words, "--config", "run.toml")[0] == 0
    result = json.loads((folder / "o" / "result.json").read_text())
    assert result["parameters"]["scale"] == "robust"
    assert result["scale"]["walls"]
    assert max(result["scale"]["span"]) < 20
    assert adjusted_rand(labels_in(folder / "o", "south"), kinds[1]) > 0.95
    code, out, _ = call(capsys, "predict", "o", "west.csv")
    assert code == 0
    assert out == (folder / "o" / "labels" / "west.csv").read_text()
    code, _, err = call(
        capsys, "serve", "--out", "s", "--insecure", "--config", "run.toml"
    )
    assert code == 2
    assert "scale robust is for runs on one machine so far" in err


def test_what_is_left_out_may_be_declared_all_the_same(here, capsys):
    # As in a settings file that declares everything, once.
    told = ("--category", "code,colour", "--date", "day")
    words = ("run", *FILES, "--out", "o", "--drop", "name,day,code", *told)
    code, _, err = call(capsys, *words)
    assert code == 0, err
    result = json.loads((here[0] / "o" / "result.json").read_text())
    assert [each["name"] for each in result["features"]] == ["colour"]


def test_a_gap_in_a_category_is_named_by_the_column_of_the_file(tmp_path, capsys):
    lines = [f"{i},{'red' if i % 2 else 'blue'},{i % 7}.5" for i in range(40)]
    lines[20] = "20,,1.5"
    lines[30] = "30,red,"
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["size,colour,dose", *lines]))
    code, _, err = call(capsys, "run", path, "--out", tmp_path / "o")
    assert code == 2
    assert "a.csv: column 'colour', row 21 has no value (2 rows of 40 incom" in err
    path.write_text("\n".join(["size,colour,dose", *lines[:20], *lines[21:]]))
    code, _, err = call(capsys, "run", path, "--out", tmp_path / "o")
    assert code == 2
    assert "a.csv: column 'dose', row 30 has no value (1 row of 39 incom" in err


def test_a_page_does_not_say_where_files_are_kept(here, capsys):
    folder, _ = here
    files = [folder / name for name in FILES]
    files[0].write_text(files[0].read_text() + ",,,,,\n")
    words = ("--drop", "name", "--missing", "drop", "--out", folder / "o")
    code, _, err = call(capsys, "run", *files, *words)
    assert code == 0
    said = "north.csv: 1 row of 91 dropped for missing values"
    assert f"note: {files[0].parent}/{said}\n" in err
    page = (folder / "o" / "report.html").read_text()
    assert f">{said}." in page
    assert str(folder) not in page.partition('id="left-out"')[2]


# ------------------------------------------------------------------ parts of dates


def visited(name, seed):
    """Write a site whose kinds of rows come in the morning or in the evening."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, 90)
    lines = ["basket,visit"]
    for k in kind.tolist():
        day, hour = rng.integers(1, 29), (8, 20)[k] + rng.integers(0, 2)
        lines.append(
            f"{20 + 40 * k + rng.normal(0, 3):.2f},2026-03-{day:02d} {hour:02d}:30"
        )
    Path(f"{name}.csv").write_text("\n".join(lines) + "\n")


def test_parts_of_dates_through_all_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("abc"):
        visited(name, seed)
    files, parts = ("a.csv", "b.csv", "c.csv"), ("--date", "visit=hour|weekday")
    code, out, _ = call(capsys, "check", *files, *parts)
    assert code == 0
    assert "visit                     date: hour, weekday" in out
    code, _, err = call(capsys, "run", *files, *parts, "--out", "o")
    assert code == 0
    result = json.loads(Path("o/result.json").read_text())
    assert result["columns"][1:3] == ["visit hour cos", "visit hour sin"]
    assert result["features"][0]["parts"]
    assert "visit hour" in Path("o/report.html").read_text()
    labels = Path("o/labels/a.csv").read_text()
    code, out, _ = call(capsys, "predict", "o", "a.csv")
    assert (code, out) == (0, labels)
    # What was settled before needs no declaration of levels, at dp neither.
    ranges = ("--ranges", "basket=0:100", "--privacy", "dp(50)")
    code, _, err = call(capsys, "run", *files, *parts, *ranges, "--out", "noisy")
    assert code == 0
    code, _, err = call(capsys, "run", *files, "--date", "visit=noon", "--out", "p")
    assert (code, "'noon' is no part of the date 'visit'" in err) == (2, True)
    words = ("join", "127.0.0.1:9", "--insecure", "--data", "a.csv", "--name", "a")
    code, _, err = call(capsys, *words, "--out", "q", *parts)
    assert code == 2
    assert "parts of dates are for runs on one machine so far; give --date visit" in err
