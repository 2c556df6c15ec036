# SPDX-License-Identifier: Apache-2.0
"""Plays one page in a process of its own: ``python play.py``, blocks as JSON on stdin.

All blocks of a page share one folder (the current one) and one Python namespace, and
are played in order. What each printed is written to stdout as a JSON list; the first
failure ends it, with the block's place in the page.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

#: A line that a command or a TOML block starts with: the file it is kept in.
NAMED = "# "


def python(text: str, where: str, names: dict[str, Any]) -> str:
    """Execute Python, warnings being errors; return what it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(text, where, "exec"), names)
    return printed.getvalue()


def bash(text: str, where: str) -> str:
    """Run commands of this environment; the first that fails ends the page."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def toml(text: str) -> str:
    """Keep a settings file under the name its first line gives."""
    first = text.splitlines()[0]
    if first.startswith(NAMED) and first.endswith(".toml"):
        Path(first.removeprefix(NAMED)).write_text(text)
    return ""


def main() -> None:
    """Play the blocks."""
    page = sys.modules["page"] = ModuleType("page")
    printed = []
    for block in json.load(sys.stdin):
        text, where = block["text"], block["where"]
        if block["language"] == "python":
            printed.append(python(text, where, vars(page)))
        elif block["language"] == "bash":
            printed.append(bash(text, where))
        else:
            printed.append(toml(text))
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main()
