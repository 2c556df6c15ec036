# SPDX-License-Identifier: Apache-2.0
"""What a new process loads before it can begin: the parts it needs, and no others."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import afcl

HEAVY = {"numpy", "scipy", "sklearn", "polars", "numba", "pandas", "matplotlib", "flwr"}
CALL = """
import sys
from afcl.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
"""
FIT = """
import sys
import numpy as np
from sklearn.datasets import load_iris
from afcl import AFCL
X = load_iris().data
model = AFCL(random_state=0).fit(X, clients=np.arange(len(X)) % int(sys.argv[1]))
assert model.n_clusters_ == 2
"""


def loaded(program, *arguments):
    """Return the packages that a program in a process of its own has imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint()\nprint(*sys.modules)", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = done.stdout.splitlines()[-1].split()
    assert "afcl" in modules
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], [], ["--version"], ["run", "--help"], ["bench", "--help"]],
    ids=" ".join,
)
def test_help_loads_nothing_that_computes(arguments):
    assert not loaded(CALL, *arguments) & HEAVY


def test_the_version_is_printed_without_rich():
    assert "rich" not in loaded(CALL, "--version")


def test_a_small_run_loads_arrays_and_tables_alone(tmp_path):
    site = tmp_path / "site.csv"
    site.write_text("a,b\n" + "".join(f"{i % 2}.{i},{i % 2}\n" for i in range(40)))
    found = loaded(CALL, "run", str(site), "--out", str(tmp_path / "out"))
    assert (tmp_path / "out" / "result.json").exists()
    assert found & HEAVY == {"numpy", "polars"}
    assert "cryptography" not in found


@pytest.mark.parametrize(
    "module",
    ["afcl.runtime.live.member", "afcl.runtime.live.server", "afcl.privacy.protection"],
)
def test_either_end_of_a_live_run_loads_numpy_alone(module):
    # At a site the engine starts a new process for every request.
    found = loaded(f"import sys, {module}")
    assert found & HEAVY == {"numpy"}
    assert "cryptography" not in found


@pytest.mark.parametrize("clients", ["1", "5"])
def test_a_fit_on_iris_compiles_nothing(clients):
    assert not loaded(FIT, clients) & {"numba", "llvmlite", "polars", "cryptography"}


def test_type_checkers_see_the_names_that_are_loaded_late():
    (block,) = [
        node
        for node in ast.parse(Path(afcl.__file__).read_text()).body
        if isinstance(node, ast.If)
    ]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == afcl.__all__
    for name, module in seen.items():
        assert getattr(import_module(str(module)), name) is getattr(afcl, name)
