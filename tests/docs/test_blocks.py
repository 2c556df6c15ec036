# SPDX-License-Identifier: Apache-2.0
"""Every block of README and docs is run, or says why not.

* ``python`` and ``bash`` blocks run, in order, in one folder and one namespace a page.
* A block that cannot run is followed by a sentence that begins with `REASON`.
* An ``output`` block says what the block before it prints; a line ``…`` stands for any
  number of lines, and ``…`` in a line for anything in it.
* A ``toml`` block whose first line names a file is kept there, for the commands.
* A block without a language is refused: say what it is.

The blocks of `MACHINES` are typed at several machines: tests/federation/test_page.py
and test_simulated.py play them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from .heart_lookalike import write_hospitals

ROOT = Path(__file__).parents[2]
PLAY = Path(__file__).parent / "play.py"
#: The page whose files are hospitals that look alike.
HOSPITALS = ROOT / "docs" / "examples" / "heart.md"
#: The page whose blocks belong to several machines.
MACHINES = ROOT / "docs" / "federation.md"
#: The first line of its blocks: at which machines, and into which file.
PLACE = re.compile(r"# (?:(?P<file>\S+) )?at (?P<names>[a-z-]+(?:, [a-z-]+)*)")
REASON = "*Not run by the tests:* "
COMMANDS = ("python", "bash")
#: What is shown only; `output` is compared, `toml` kept.
SHOWN = ("json", "output", "text", "toml")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block, where it begins, and why it is not run."""

    language: str
    text: str
    line: int
    reason: str = ""
    follows: bool = False

    @property
    def is_played(self) -> bool:
        """Whether a page's play has it."""
        return self.language in (*COMMANDS, "toml") and not self.reason


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page; `follows`: right after another one."""
    lines = text.splitlines()
    found: list[Block] = []
    number = ended = 0
    while number < len(lines):
        fence = re.match(r" *(`{3,}|~{3,}) *(.*)$", lines[number])
        if fence is None:
            number += 1
            continue
        start, language = number, fence[2].strip()
        while lines[number + 1 :] and lines[number + 1].strip() != fence[1]:
            number += 1
        inside = "\n".join(lines[start + 1 : number + 1]) + "\n"
        number += 2
        after = next((line for line in lines[number:] if line.strip()), "")
        reason = after.removeprefix(REASON) if after.startswith(REASON) else ""
        follows = bool(found) and not "".join(lines[ended:start]).strip()
        found.append(Block(language, inside, start + 1, reason, follows))
        ended = number
    return found


def faults(text: str) -> list[str]:
    """Return what is wrong with the blocks of a page, a line each."""
    wrong = []
    blocks = blocks_of(text)
    before: Block | None = None
    for block in blocks:
        where, language = f"line {block.line}", block.language
        if language not in (*COMMANDS, *SHOWN) and not block.reason:
            wrong.append(f"{where}: a block of {language!r} is neither run nor shown")
        if language in SHOWN and block.reason:
            wrong.append(f"{where}: {language} is not run anyway, it needs no reason")
        if language == "output" and not (
            block.follows and before is not None and before.language in COMMANDS
        ):
            wrong.append(f"{where}: output does not follow what prints it")
        before = block
    given = sum(REASON in line for line in text.splitlines())
    if given != sum(bool(block.reason) for block in blocks):
        wrong.append("a reason stands where there is no block right before it")
    return wrong


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; `…` is anything, alone any lines."""
    lines = (re.escape(line.rstrip()) + "\n" for line in shown.splitlines())
    parts = [line if line == "…\n" else line.replace("…", ".*") for line in lines]
    pattern = "".join("(?:.*\n)*?" if p == "…\n" else p for p in parts)
    plain = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, plain) is not None


# ------------------------------------------------------------------ the pages


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def write_sites(folder: Path) -> None:
    """Write the files that pages speak of: three sites, one with a gap, new rows."""
    rng = np.random.default_rng(0)
    kinds = np.array([[25, 60, 110], [40, 88, 125], [66, 66, 140], [74, 96, 160]])
    seen = {"north": (0, 1), "south": (1, 2), "east": (2, 3, 3, 0)}
    for name, groups in seen.items():
        rows = np.concatenate([rng.normal(kinds[g], 3, (60, 3)) for g in groups])
        frame = pl.DataFrame(rows.round(2), schema=["age", "pulse", "pressure"])
        frame = frame.with_columns(patient_id=rng.permutation(len(rows)))
        frame.write_csv(folder / f"{name}.csv")
        frame.write_parquet(folder / f"{name}.parquet")
    frame[:3].write_csv(folder / "new.csv")
    gap = pl.when(pl.int_range(pl.len()) == 1).then(None).otherwise(pl.col("age"))
    frame.with_columns(age=gap).write_csv(folder / "gaps.csv")


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_every_block_runs_or_says_why_not(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in PAGES
        if path != MACHINES
        and any(b.is_played for b in blocks_of(path.read_text(encoding="utf-8")))
    ],
    ids=named,
)
def test_a_page_does_what_it_says(path, tmp_path):
    if path == HOSPITALS:
        write_hospitals(tmp_path / "heart")
    else:
        write_sites(tmp_path)
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    played = [block for block in blocks if block.is_played]
    told = [
        {"language": b.language, "text": b.text, "where": f"{named(path)}:{b.line}"}
        for b in played
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PLAY)],
        input=json.dumps(told),
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed = dict(zip(played, json.loads(done.stdout), strict=True))
    for before, block in zip(blocks, blocks[1:], strict=False):
        if block.language == "output":
            said = printed[before]
            assert agrees(block.text, said), f"line {block.line}: it printed\n{said}"


def test_a_block_for_several_machines_says_where_it_is_typed():
    """tests/federation plays them; it refuses those that do not."""
    blocks = blocks_of(MACHINES.read_text(encoding="utf-8"))
    typed = [block for block in blocks if block.language in ("bash", "toml")]
    assert len(typed) > 20
    for block in typed:
        assert block.reason == ""
        assert PLACE.fullmatch(block.text.splitlines()[0]), f"line {block.line}"


def test_the_readme_and_the_start_have_something_to_run():
    for path in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        languages = {b.language for b in blocks_of(path.read_text()) if b.is_played}
        assert set(COMMANDS) <= languages


# ------------------------------------------------------------------ the rules

RUNS = "```bash\nls\n```\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```\nls\n```\n", "a block of '' is neither run nor shown"),
        ("```console\n$ ls\n```\n", "a block of 'console' is neither"),
        (f"```toml\na = 1\n```\n{REASON}so.\n", "it needs no reason"),
        (f"Words.\n\n{REASON}so.\n", "no block right before it"),
        (f"{REASON}so.\n\n{RUNS}", "no block right before it"),
        (f"{RUNS}\nWords.\n\n{REASON}so.\n", "no block right before it"),
        ("```output\n1\n```\n", "does not follow what prints it"),
        (f"{RUNS}\nWords.\n\n```output\n1\n```\n", "does not follow what prints"),
        ("```json\n{}\n```\n```output\n1\n```\n", "does not follow what prints"),
    ],
)
def test_a_page_that_breaks_a_rule_is_found_out(text, message):
    (fault,) = faults(text)
    assert message in fault


@pytest.mark.parametrize(
    "text",
    [
        RUNS,
        f"{RUNS}\n{REASON}so.\n",
        f"```\nls\n```\n{REASON}so.\n",
        "```python\nprint(1)\n```\n```output\n1\n```\n",
        "```text\nls\n```\nWords.\n",
    ],
)
def test_a_page_that_keeps_the_rules_is_fine(text):
    assert faults(text) == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("1\n", "1\n", True),
        ("1\n", "2\n", False),
        ("1\n", "1\n2\n", False),
        ("1\n…\n", "1\n2\n3\n", True),
        ("…\n3\n", "1\n2\n3\n", True),
        ("1\n…\n3\n", "1\n3\n", True),
        ("1\n…\n3\n", "1\n2\n", False),
        ("a.b\n", "axb\n", False),
        ("1 … 3\n", "1 2 3\n", True),
        ("1 … 3\n", "1 2\n3\n", False),
    ],
)
def test_what_a_page_shows_is_compared(shown, printed, same):
    assert agrees(shown, printed) is same


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (("python", "1 / 0"), "ZeroDivisionError"),
        (("python", "import warnings; warnings.warn('old')"), "UserWarning: old"),
        (("bash", "false\ntrue"), "page.md:3: exit code 1"),
        (("bash", "afcl run nowhere.csv --out x"), "exit code 2\nafcl: "),
    ],
)
def test_a_block_that_fails_is_found_out(block, message, tmp_path):
    told = [{"language": block[0], "text": block[1], "where": "page.md:3"}]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PLAY)],
        input=json.dumps(told),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert message in done.stderr
