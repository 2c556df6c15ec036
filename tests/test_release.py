# SPDX-License-Identifier: Apache-2.0
"""The wheel that is released, and what has to agree with its version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from afcl import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel as `make wheel` does, without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--no-index", "--disable-pip-version-check"),
            *("-w", str(folder), str(ROOT)),
        ],
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_is_this_version_and_holds_the_package_alone(wheel):
    assert wheel.name == f"afcl-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        about = file.read(f"afcl-{__version__}.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {
        "afcl",
        f"afcl-{__version__}.dist-info",
    }
    assert "afcl/py.typed" in names
    assert f"afcl-{__version__}.dist-info/licenses/LICENSE" in names
    for extra in PROJECT["project"]["optional-dependencies"]:
        assert f"Provides-Extra: {extra}" in about
    assert wheel.stat().st_size < 2_000_000


def test_the_wheel_is_installed_and_runs(wheel, tmp_path):
    there = tmp_path / "there"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-index", "--disable-pip-version-check"),
            *("--target", str(there), str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    environment = {**os.environ, "PYTHONPATH": str(there)}
    program = (
        "import afcl, numpy as np\n"
        f"assert afcl.__file__.startswith({str(there)!r}), afcl.__file__\n"
        "X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)\n"
        "X += np.random.default_rng(0).normal(0, 1, X.shape)\n"
        "assert afcl.AFCL(random_state=0).fit(X).n_clusters_ == 2\n"
    )
    for command in (
        [sys.executable, "-c", program],
        [sys.executable, str(there / "bin" / "afcl"), "--version"],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == __version__


def test_everything_says_the_same_version():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(__version__)}\b", changes, flags=re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^version: {re.escape(__version__)}$", citation, re.MULTILINE)
    minor = __version__.rpartition(".")[0]
    bench = (ROOT / "packages" / "afcl-bench" / "pyproject.toml").read_text()
    assert f'"afcl>={minor},<' in bench


def test_the_oldest_versions_are_the_lower_bounds():
    bounds = dict(each.split(">=") for each in PROJECT["project"]["dependencies"])
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()[1:]
    pinned = dict(line.split("==") for line in lines)
    assert pinned.keys() == bounds.keys()
    for name, version in pinned.items():
        assert version == bounds[name] or version == f"{bounds[name]}.0", name


def test_ci_runs_targets_that_exist():
    targets = re.findall(
        r"^([\w -]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    known = {name for line in targets for name in line.split()}
    flow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (matrix,) = re.findall(r"target: \[(.+)\]", flow)
    asked = {name.strip() for name in matrix.split(",")}
    run = (ROOT / ".ci" / "run").read_text()
    (line,) = re.findall(r"^make (.+)$", run, re.MULTILINE)
    assert asked | set(line.split()) <= known
