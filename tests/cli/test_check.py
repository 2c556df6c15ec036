# SPDX-License-Identifier: Apache-2.0
"""``afcl check``, and what ``afcl run`` says of suspicious data."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.data.synthetic import make_sd1
from afcl.report.page import SUSPICIONS


def call(capsys, *words):
    """Run the command; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Three sites, of which the last one has ids, a sentinel and a text."""
    monkeypatch.chdir(tmp_path)
    X, _ = make_sd1(0)
    frame = pl.DataFrame(X, schema=["u", "v"])
    frame[0::3].write_csv("a.csv")
    frame[1::3].write_csv("b.csv")
    odd = frame[2::3].with_columns(
        v=pl.when(pl.int_range(pl.len()) % 50 == 0).then(-999.0).otherwise(pl.col("v"))
    )
    odd.write_csv("odd.csv")
    rows = pl.int_range(pl.len())
    named = odd.with_columns(
        patient=rows + 1001,
        sex=pl.when(rows % 3 == 0).then(pl.lit("male")).otherwise(pl.lit("female")),
        seen=pl.lit("2026-11-") + (rows % 28 + 1).cast(pl.String).str.zfill(2),
        flag=rows % 2,
        grade=pl.when(rows % 4 == 0).then(None).otherwise(rows % 5),
    )
    named.write_csv("named.csv")
    return tmp_path


SENTINEL = (
    "'v' has -999 in 16 cells of odd, and else -0.192898 to 6.03002: if it means no "
    "value, use --null -999"
)


def text_of(out):
    """Return printed lines as one, unwrapped."""
    return " ".join(out.split())


# ------------------------------------------------------------------ check


def test_clean_files(here, capsys):
    code, out, err = call(capsys, "check", "a.csv", "b.csv", "--strict")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "a: 767 rows"
    assert lines[1].split() == [
        "column",
        "kind",
        "gaps",
        "smallest",
        "median",
        "largest",
    ]
    assert lines[2].split()[:2] == ["u", "number"]
    assert lines[-1] == "Nothing suspicious."


def test_what_is_in_a_file_and_what_is_odd(here, capsys):
    before = sorted(here.iterdir())
    code, out, err = call(capsys, "check", "named.csv", "--date", "seen")
    assert (code, err) == (0, "")
    assert all(len(line) <= 100 for line in out.splitlines())
    table = {line.split()[0]: line for line in out.splitlines()[2:9]}
    assert table["patient"].split() == ["patient", "number", "1001", "1383.5", "1766"]
    assert table["sex"].split()[1:] == ["category:", "female,", "male"]
    assert table["seen"].split() == [
        "seen", "date", "2026-11-01", "2026-11-14", "2026-11-28",
    ]  # fmt: skip
    assert table["grade"].split() == ["grade", "number", "25", "%", "0", "2", "4"]
    said = text_of(out)
    assert "3 suspicious:" in said
    assert "'patient' looks like ids or a counter (1001 to 1766" in said
    assert "if it means no value, use --null -999" in said
    assert "use --category flag" in said
    assert "1 to think about: - 'grade' has 5 values only" in said
    assert sorted(here.iterdir()) == before


def test_advice_that_is_taken_leaves_nothing_to_say(here, capsys):
    code, out, _ = call(
        capsys, "check", "named.csv", "--null", "-999", "--id", "patient", "--strict",
        "--category", "flag,grade", "--drop", "seen",
    )  # fmt: skip
    assert code == 0
    assert out.splitlines()[-1] == "Nothing suspicious."


def test_strict_and_json(here, capsys):
    code, out, _ = call(capsys, "check", "a.csv", "odd.csv", "--json", "--strict")
    assert code == 1
    found = json.loads(out)
    assert found["suspicions"] == [
        {"site": "odd", "column": "v", "kind": "sentinel", "text": SENTINEL}
    ]
    assert [site["name"] for site in found["sites"]] == ["a", "odd"]
    column = found["sites"][1]["columns"][1]
    assert (column["name"], column["kind"], column["smallest"]) == ("v", "number", -999)


def test_codes_of_few_values_are_not_refused(here, capsys):
    pl.DataFrame({"grade": np.arange(60) % 5, "u": np.arange(60) / 7}).write_csv(
        "g.csv"
    )
    code, out, _ = call(capsys, "check", "g.csv", "--strict")
    assert code == 0
    assert "Nothing suspicious.\n1 to think about:\n- 'grade' has 5 values" in out
    said = (
        "'grade' has 5 values only (0, 1, 2, 3, 4): if they are codes, use --category "
        "grade, or --drop grade"
    )
    code, _, err = call(capsys, "run", "g.csv", "--strict", "--out", "o")
    assert (code, f"note: {said}\n" in err) == (0, True)
    (found,) = json.loads(Path("o/result.json").read_text())["suspicions"]
    assert (found["column"], found["text"]) == ("grade", said)
    assert "if they are codes, use --category" in Path("o/report.html").read_text()


def test_columns_that_are_left_out_are_told_with_the_reason(here, capsys):
    code, out, _ = call(capsys, "check", "named.csv")
    assert code == 0
    assert "note: column 'seen' left out: dates; --date seen counts its days" in out
    code, out, _ = call(capsys, "check", "a.csv", "named.csv")
    assert code == 0
    assert "note: column 'patient' left out: a.csv does not have it" in out


def test_a_site_without_rows_or_values(here, capsys):
    Path("empty.csv").write_text("u,v\n")
    Path("half.csv").write_text("u,v\n" + "1.5,\n" * 3)
    code, out, _ = call(capsys, "check", "a.csv", "empty.csv", "half.csv", "--json")
    assert code == 0
    _, empty, half = json.loads(out)["sites"]
    assert empty["rows"] == 0
    assert half["columns"][1]["kind"] == "no value here"
    assert half["columns"][1]["gaps"] == 1.0


def test_very_many_columns_and_sites_are_shortened(here, capsys):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 50))
    wide[:, 44] = np.arange(40)
    for i in range(14):
        part = wide + i / 100
        part[:, 44] = wide[:, 44] + 100 * i
        pl.DataFrame(part, schema=[f"c{j}" for j in range(50)]).write_csv(
            f"s{i:02}.csv"
        )
    code, out, _ = call(capsys, "check", *sorted(here.glob("s*.csv")))
    lines = out.splitlines()
    assert code == 0
    assert sum(line.endswith(": 40 rows") for line in lines) == 12
    assert "… and 2 more sites; --json has all" in lines
    # The first 30, and the one that is suspicious.
    assert lines.count("… and 19 more columns; --json has all") == 12
    assert sum(line.startswith("c44 ") for line in lines) == 12


def test_bad_input_is_one_line(here, capsys):
    code, out, err = call(capsys, "check", "nowhere.csv")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    code, out, err = call(capsys, "check")
    assert (code, out) == (2, "")


# ------------------------------------------------------------------ run


def test_a_run_names_what_is_odd(here, capsys):
    code, _, err = call(capsys, "run", "a.csv", "b.csv", "odd.csv", "--out", "o")
    assert code == 0
    assert f"note: {SENTINEL}" in err.splitlines()
    result = json.loads(Path("o/result.json").read_text())
    assert result["suspicions"] == [
        {"site": "odd", "column": "v", "kind": "sentinel", "text": SENTINEL}
    ]
    page = Path("o/report.html").read_text()
    assert "Look at the data first" in page
    assert "has -999 in 16 cells of odd" in page


def test_a_run_on_clean_files_says_nothing(here, capsys):
    code, _, err = call(capsys, "run", "a.csv", "b.csv", "--strict", "--out", "o")
    assert (code, err) == (0, "")
    assert json.loads(Path("o/result.json").read_text())["suspicions"] == []
    assert "Look at the data first" not in Path("o/report.html").read_text()


def test_strict_refuses_and_writes_nothing(here, capsys):
    words = ("run", "a.csv", "odd.csv", "--strict", "--out", "o")
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert err == f"afcl: {SENTINEL} (refused by --strict)\n"
    assert not Path("o").exists()
    code, _, err = call(
        capsys, "run", "named.csv", "--drop", "seen,grade", "--strict", "--out", "o"
    )
    assert code == 2
    assert "; 2 more, 'afcl check' shows all (refused by --strict)" in err


def test_where_rows_must_not_tell_the_findings_stay_on_the_terminal(here, capsys):
    code, _, err = call(
        capsys, "run", "a.csv", "b.csv", "odd.csv", "--privacy", "dp(1)",
        "--ranges", "u=-2:8", "--ranges", "v=-2:8", "--out", "o",
    )  # fmt: skip
    assert code == 0, err
    assert SENTINEL in err
    assert json.loads(Path("o/result.json").read_text())["suspicions"] == []
    assert "has -999" not in Path("o/report.html").read_text()


def test_the_page_shows_some_of_very_many(here, capsys):
    rng = np.random.default_rng(0)
    flags = pl.DataFrame(rng.integers(0, 2, (60, SUSPICIONS + 3)))
    flags.with_columns(u=rng.normal(size=60)).write_csv("flags.csv")
    code, _, err = call(capsys, "run", "flags.csv", "--out", "o")
    assert code == 0
    assert err.count("has two values only") == 3
    page = Path("o/report.html").read_text()
    assert page.count("has two values only") == SUSPICIONS
    assert "And 3 more: see suspicions in result.json." in page


def test_zeros_are_answered_by_the_command_that_is_advised(capsys, here):
    rng = np.random.default_rng(0)
    for site, zeros in (("n.csv", 0), ("s.csv", 20)):
        chol = rng.normal(240, 30, 90)
        chol[:zeros] = 0
        group = rng.integers(0, 3, 90) * 5.0 + rng.normal(0, 0.5, 90)
        pl.DataFrame({"Total chol": chol, "dose": group}).write_csv(site)
    code, out, _ = call(capsys, "check", "n.csv", "s.csv")
    assert code == 0
    advice = "--null 'Total chol=0'"
    assert advice in " ".join(out.split())
    told = ("--null", "total chol=0")
    code, out, _ = call(capsys, "check", "n.csv", "s.csv", *told, "--strict")
    assert code == 0
    assert "Nothing suspicious." in out
    run = ("run", "n.csv", "s.csv", "--missing", "impute", "--out", "o")
    assert call(capsys, *run, *told)[0] == 0
    smallest = json.loads(Path("o/result.json").read_text())["scale"]["low"][0]
    assert smallest > 100
    new = ("predict", "o", "s.csv", "--missing", "impute", *told)
    code, out, _ = call(capsys, *new)
    assert code == 0
    assert out == Path("o/labels/s.csv").read_text()
    assert call(capsys, *run, "--null", "chool=0")[0] == 2


def test_one_of_four_sites_in_kilopascal_is_named_and_refused(here, capsys):
    rng = np.random.default_rng(0)
    files = ("n.csv", "s.csv", "e.csv", "w.csv")
    for name in files:
        pressure = rng.normal(125, 15, 100) / (7.50062 if name == "w.csv" else 1)
        columns = {"pressure": pressure, "pulse": rng.normal(72, 9, 100)}
        pl.DataFrame(columns).write_csv(name)
    code, out, _ = call(capsys, "check", *files)
    assert code == 0
    said = (
        "'pressure' at w is about 7.50062 times as small as at the other sites: it "
        "looks like another unit (kPa and mmHg); convert it there"
    )
    assert f"1 suspicious: - {said}" in text_of(out)
    assert call(capsys, "check", *files, "--strict")[0] == 1
    code, _, err = call(capsys, "run", *files, "--strict", "--out", "o")
    assert (code, err) == (2, f"afcl: {said} (refused by --strict)\n")


def test_large_numbers_keep_their_exponent(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{1e9 * i + 123_456_789:.0f},{i}.5" for i in range(9)]
    Path("a.csv").write_text("\n".join(["u,v", *rows]) + "\n")
    _, out, _ = call(capsys, "check", "a.csv")
    assert "…" not in out
    assert "1.23e+08    4.12e+09    8.12e+09" in out
