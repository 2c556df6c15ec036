# SPDX-License-Identifier: Apache-2.0
"""`--shape` as a user meets it: files, labels of new rows, one line when it fails."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.runtime.live.server import RunPlan


def call(capsys: Any, *arguments: object) -> tuple[Any, str, str]:
    """Run the command in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> list[Path]:
    """Three files: a ring, a blob inside of it, and what kind a row is of."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 400)
    ring = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.concatenate([ring, rng.normal(0, 1, (200, 2))])
    rows += rng.normal(0, 0.3, rows.shape)
    kinds = np.where(np.arange(600) < 400, "outer", "inner")
    owner, folder, paths = rng.integers(0, 3, 600), tmp_path_factory.mktemp("f"), []
    for site, name in enumerate(("north", "south", "east")):
        own = owner == site
        columns = {"u": rows[own, 0], "v": 100 * rows[own, 1], "kind": kinds[own]}
        paths.append(folder / f"{name}.csv")
        pl.DataFrame(columns).write_csv(paths[-1])
    return paths


@pytest.fixture(scope="module")
def done(files: list[Path], tmp_path_factory: Any) -> Path:
    """A finished run's folder."""
    folder: Path = tmp_path_factory.mktemp("done") / "out"
    words = ["--drop", "kind", "--shape", "connected"]
    with pytest.raises(SystemExit) as stop:
        main(["run", *map(str, files), "--out", str(folder), *words])
    assert stop.value.code == 0
    return folder


class TestFiles:
    def test_result(self, done: Path) -> None:
        result = json.loads((done / "result.json").read_text())
        assert result["n_clusters"] == 2
        assert result["shape"] == {
            "name": "connected",
            "reason": "connected clusters were asked for",
        }
        assert result["parameters"]["shape"] == "connected"
        assert "connected" in result["path"][0]["scores"]
        assert len(result["tree"]["sizes"]) == len(result["cells"]["rows"])

    def test_cells(self, done: Path) -> None:
        result = json.loads((done / "result.json").read_text())
        with open(done / "cells.csv") as file:
            cells = list(csv.DictReader(file))
        assert list(cells[0]) == ["u", "v", "rows", "cluster", "sparse"]
        assert sum(int(cell["rows"]) for cell in cells) == 600
        assert {cell["sparse"] for cell in cells} <= {"0", "1"}
        for cell in cells:
            inside = np.hypot(float(cell["u"]), float(cell["v"]) / 100) < 6
            assert cell["cluster"] == ("1" if inside else "0")
        assert len(cells) == len(result["cells"]["points"])

    def test_labels_path_and_centres(self, done: Path, files: list[Path]) -> None:
        for path in files:
            labels = pl.read_csv(done / "labels" / path.name)["cluster"].to_list()
            kinds = pl.read_csv(path)["kind"].to_list()
            assert [("outer", "inner")[label] for label in labels] == kinds
        assert (done / "path.csv").read_text().startswith("k,silhouette,")
        assert (done / "centers.csv").read_text().startswith("cluster,rows,u,v\n0,400,")
        assert "need not be round" in (done / "report.html").read_text()

    def test_new_rows_go_by_places(
        self, done: Path, files: list[Path], capsys: Any
    ) -> None:
        code, out, _ = call(capsys, "predict", done, files[0])
        assert code == 0
        assert out == (done / "labels" / files[0].name).read_text()

    def test_streamed(self, files: list[Path], done: Path, tmp_path: Path) -> None:
        words = ["--drop", "kind", "--shape", "connected", "--stream"]
        with pytest.raises(SystemExit) as stop:
            main(["run", *map(str, files), "--out", str(tmp_path), *words])
        assert stop.value.code == 0
        for name in ("cells.csv", "path.csv", "centers.csv", "labels/north.csv"):
            assert (tmp_path / name).read_bytes() == (done / name).read_bytes()

    def test_categories(self, files: list[Path], tmp_path: Path, capsys: Any) -> None:
        """Cells lie where columns of levels are columns like any other."""
        words = ("--shape", "connected", "--privacy", "summary")
        code, out, _ = call(capsys, "run", *files, "--out", tmp_path, *words)
        assert code == 0
        assert "They need not be round: connected clusters were asked for." in out
        header = (tmp_path / "cells.csv").read_text().splitlines()[0]
        assert header == "u,v,kind=inner,kind=outer,rows,cluster,sparse"
        code, out, _ = call(capsys, "predict", tmp_path, files[1])
        assert code == 0
        assert out == (tmp_path / "labels" / files[1].name).read_text()

    def test_another_run_takes_the_cells_away(
        self, files: list[Path], tmp_path: Path, capsys: Any
    ) -> None:
        run = ("run", *files, "--out", tmp_path, "--drop", "kind", "--force")
        assert call(capsys, *run, "--shape", "connected")[0] == 0
        assert (tmp_path / "cells.csv").is_file()
        assert call(capsys, *run, "--shape", "convex")[0] == 0
        assert not (tmp_path / "cells.csv").exists()
        assert "shape" not in json.loads((tmp_path / "result.json").read_text())


class TestSettings:
    def test_a_file_says_it(
        self, files: list[Path], tmp_path: Path, capsys: Any
    ) -> None:
        (tmp_path / "run.toml").write_text('shape = "auto"\ndrop = ["kind"]\n')
        words = ("--config", tmp_path / "run.toml", "--out", tmp_path / "out")
        assert call(capsys, "run", *files, *words)[0] == 0
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert result["parameters"]["shape"] == "auto"
        assert result["shape"]["name"] in ("convex", "connected")

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (("--shape", "round"), "shape must be one of convex, connected, auto"),
            (
                ("--preset", "paper", "--shape", "connected"),
                "preset paper knows round clusters only",
            ),
            (
                ("--method", "k-fed", "--n-clusters", "2", "--shape", "connected"),
                "--shape belongs to AFCL",
            ),
        ],
    )
    def test_one_line(
        self, files: list[Path], tmp_path: Path, capsys: Any, words: Any, line: str
    ) -> None:
        code, _, err = call(
            capsys, "run", *files, "--drop", "kind", "--out", tmp_path / "o", *words
        )
        assert code == 2
        assert line in err
        assert len(err.strip().splitlines()) == 1

    def test_serve_keeps_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_serve(folder: Path, plan: RunPlan, *_: Any) -> None:
            plan.write(folder)

        module = import_module("afcl.cli.serve")
        monkeypatch.setattr(module, "_serve", no_serve)
        with pytest.raises(SystemExit):
            main(["serve", "--out", str(tmp_path), "--insecure", "--shape", "auto"])
        plan = RunPlan.read(tmp_path)
        assert plan.options["shape"] == "auto"
        assert plan.parameters is not None
        assert plan.parameters["shape"] == "auto"
