# SPDX-License-Identifier: Apache-2.0
"""`afcl forget` of a federation that nobody serves."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from afcl.cli import main
from afcl.core.lineage import Lineage
from afcl.runtime.flower.database import DATABASE
from afcl.runtime.flower.launcher import HOME
from afcl.runtime.live.numbered import Answers, State
from afcl.runtime.live.staying import answer_folder


def told(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["forget", *map(str, words)])
    out = capsys.readouterr()
    assert ended.value.code == code, out
    return out.err if code else out.out


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The folder of a federation with one answer, as its coordinator left it."""
    folder = tmp_path / "run"
    answer_folder(folder, 1).mkdir(parents=True)
    State(newest=1, stage="waiting", expected=("zoe", "b")).write(folder)
    lineage = Lineage().followed(None, [5, 5], ["zoe", "b"])
    Answers(lineage, ("zoe", "b")).write(folder, 1)
    (folder / HOME).mkdir()
    with sqlite3.connect(folder / HOME / DATABASE) as database:
        database.execute("CREATE TABLE objects (content BLOB)")
        database.execute("INSERT INTO objects VALUES ('the last words of zoe')")
    database.close()
    return folder


def test_no_file_knows_the_site(stopped: Path, capsys: pytest.CaptureFixture[str]):
    said = told(capsys, "zoe", "--run", stopped)
    assert said.startswith("zoe is forgotten; the next answer is found when")
    assert "all clusters get new names" in said
    for path in filter(Path.is_file, stopped.rglob("*")):
        assert b"zoe" not in path.read_bytes(), path
    assert State.read(stopped).has_forgotten("zoe")


def test_who_is_unknown_and_what_cannot_be_cleared(
    stopped: Path, capsys: pytest.CaptureFixture[str]
):
    assert "no site is called x in" in told(capsys, "x", "--run", stopped, code=2)
    (stopped / HOME / DATABASE).write_bytes(b"no database" * 100)
    said = told(capsys, "zoe", "--run", stopped, code=2)
    assert "engine.db still holds messages" in said
    assert State.read(stopped).has_forgotten("zoe")
