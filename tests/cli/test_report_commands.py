# SPDX-License-Identifier: Apache-2.0
"""``afcl report`` and ``afcl dashboard`` as a user meets them."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.cli.report import own_rows, write_at_the_end
from afcl.runtime.live.membership import DONE, Membership, keep_membership


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def rows_of(seed):
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    return rng.normal(spots[:, None, :], 0.5, (3, 20, 2)).reshape(-1, 2)


@pytest.fixture
def files(tmp_path):
    paths = []
    for site in range(3):
        path = tmp_path / f"site{site}.csv"
        pl.DataFrame(rows_of(site), schema=["u", "v"]).write_csv(path)
        paths.append(path)
    return paths


def test_every_run_writes_its_page(files, tmp_path, capsys):
    out = tmp_path / "out"
    code, said, _ = call(capsys, "run", *files, "--out", out)

    assert code == 0
    assert f"look at {out / 'report.html'} in a browser" in said
    page = (out / "report.html").read_text()
    result = json.loads((out / "result.json").read_text())
    assert f"<h1>{result['n_clusters']} clusters</h1>" in page
    assert "site2" in page
    # And again, on demand.
    (out / "report.html").unlink()
    code, said, _ = call(capsys, "report", out)
    assert code == 0
    assert said == f"The report is {out / 'report.html'}: open it in a browser.\n"
    assert (out / "report.html").read_text() == page


def test_a_page_that_fails_does_not_lose_the_run(files, tmp_path, capsys, monkeypatch):
    def fail(folder, own=None):
        raise RuntimeError("no\nink")

    monkeypatch.setattr("afcl.report.write_report", fail)
    code, _, err = call(capsys, "run", *files, "--out", tmp_path / "out")

    assert code == 0
    assert (tmp_path / "out" / "result.json").is_file()
    assert "warning: no report was written (no ink)" in err
    assert len(err.strip().splitlines()) == 1


def test_report_of_nothing_says_what_to_give(tmp_path, capsys):
    code, out, err = call(capsys, "report", tmp_path)
    assert (code, out) == (2, "")
    assert "holds no run" in err
    assert len(err.splitlines()) == 1


def test_report_of_an_unfinished_run(files, tmp_path, capsys):
    out = tmp_path / "out"
    call(capsys, "run", *files, "--out", out)
    trace = (out / "trace.jsonl").read_text()
    for path in out.iterdir():
        if path.is_file() and path.name != "run.json":
            path.unlink()
    (out / "trace.jsonl").write_text(trace[: len(trace) // 2])
    assert call(capsys, "report", out)[0] == 0
    assert "unfinished" in (out / "report.html").read_text()


def test_dashboard_asks_for_what_it_needs(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    code, _, err = call(capsys, "dashboard", file)
    assert code == 2
    assert "is a file: give the folder of a run" in err
    assert call(capsys, "dashboard", tmp_path, "--port", "99999")[0] == 2


def test_dashboard_hands_over_what_was_typed(tmp_path, capsys, monkeypatch):
    asked = []

    def serve(folder, host, port, started):
        asked.append((folder, host, port))
        started("http://127.0.0.1:8050/")

    monkeypatch.setattr("afcl.dashboard.serve", serve)
    code, out, _ = call(capsys, "dashboard", tmp_path)
    assert code == 0
    assert asked == [(tmp_path, "127.0.0.1", 8050)]
    assert f"{tmp_path} is shown at http://127.0.0.1:8050/" in out


# ------------------------------------------------------------------ a site's own page


@pytest.fixture
def site(files, tmp_path, capsys):
    """A site's folder as a live run leaves it, made from a simulated one."""
    call(capsys, "run", *files, "--out", tmp_path / "out")
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    own = result.pop("sites")[0]
    result["site"] = {"name": "site0", "rows": own["rows"], "sizes": own["sizes"]}
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(result))
    labels = (tmp_path / "out" / "labels" / "site0.csv").read_text()
    (folder / "labels.csv").write_text(labels)
    member = Membership(str(files[0]), "site0", state=DONE, run="r")
    keep_membership(folder, member)
    return folder


def read_own(folder) -> Any:
    own = own_rows(folder)
    assert own is not None
    return own


def test_a_site_sees_its_own_rows(site, files, capsys):
    own = read_own(site)
    labels = [int(x) for x in (site / "labels.csv").read_text().split()[1:]]

    assert np.array_equal(own.values, pl.read_csv(files[0]).to_numpy())
    assert own.labels.tolist() == labels
    assert call(capsys, "report", site)[0] == 0
    page = (site / "report.html").read_text()
    assert len(re.findall(r'class="row fill', page)) == 3
    assert "this site&#x27;s own 60 rows" in page


def test_rows_with_holes_stay_in_step(site, files, tmp_path):
    text = files[0].read_text().splitlines()
    text[1] = ",1.0"
    files[0].write_text("\n".join(text) + "\n")
    lines = (site / "labels.csv").read_text().splitlines()
    lines[1] = "-1"
    (site / "labels.csv").write_text("\n".join(lines) + "\n")
    keep_membership(
        site, Membership(str(files[0]), "site0", missing="drop", state=DONE)
    )
    own = read_own(site)
    assert own.values.shape == (59, 2)
    assert own.labels.min() == 0


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_file_that_is_gone_or_changed_is_told(site, files, capsys, how):
    told = Membership(str(files[0]), "site0", state=DONE, fingerprint="other rows")
    keep_membership(site, told)
    if how == "gone":
        files[0].unlink()
    assert call(capsys, "report", site)[0] == 0
    page = (site / "report.html").read_text()
    assert "own rows are not shown" in page
    assert 'class="rows"' not in page


def test_other_folders_have_no_own_rows(tmp_path, capsys):
    assert own_rows(tmp_path) is None
    assert write_at_the_end(tmp_path) is None
    assert "try 'afcl report" in capsys.readouterr().err
