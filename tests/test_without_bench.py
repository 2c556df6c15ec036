# SPDX-License-Identifier: Apache-2.0
"""The product alone: what afcl-bench would bring is named in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: A process in which the other package is not installed.
WITHOUT = """
import importlib.metadata, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "afcl_bench":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
installed = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **group: [
    entry for entry in installed(**group) if not entry.value.startswith("afcl_bench")
]
"""
COMMAND = f"{WITHOUT}\nfrom afcl.cli import main\nmain(sys.argv[1:])"


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "specs"],
        ["bench", "--help"],
        ["plot", "folder", "k-path"],
        ["run", "site.csv", "--method", "k-fed", "--out", "out"],
        ["run", "site.csv", "--method", "any-k:dk++", "--out", "out"],
    ],
    ids=" ".join,
)
def test_a_command_says_what_to_install(arguments, tmp_path):
    (tmp_path / "site.csv").write_text("a,b\n1,2\n3,4\n")
    done = run(f"import os\nos.chdir({str(tmp_path)!r})\n{COMMAND}", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("afcl: ")
    assert line.endswith("pip install afcl-bench")


def test_help_names_the_commands_all_the_same():
    done = run(COMMAND, "--help")
    assert done.returncode == 0
    assert "bench" in done.stdout
    assert "plot" in done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "from afcl.metrics import bonferroni_dunn",
        "import afcl.metrics; afcl.metrics.cd_diagram",
        "from afcl import make_method; make_method('k-fed', n_clusters=2)",
        "from afcl import make_method; make_method('any-k:dk++')",
    ],
)
def test_a_name_says_what_to_install(statement):
    done = run(f"{WITHOUT}\n{statement}")
    assert done.returncode == 1
    last, note = done.stderr.splitlines()[-2:]
    assert note == "See docs/errors.md#inputerror"
    assert last.startswith("afcl.exceptions.InputError: ")
    assert last.endswith("pip install afcl-bench")


def test_the_methods_that_are_left_are_afcls_own():
    done = run(f"{WITHOUT}\nimport afcl\nprint(*afcl.method_names())")
    assert done.stdout.split() == ["afcl", "afcl-matlab", "afcl-paper"]


def test_a_mistake_in_the_other_package_is_not_hidden():
    from afcl._addon import from_bench

    with pytest.raises(ModuleNotFoundError, match=r"afcl_bench\.nothing"):
        from_bench("nothing", "nothing")
