# SPDX-License-Identifier: Apache-2.0
"""Compiled code on disk is used again, but never after any kernel's source changed."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from numba.core.caching import CompileResultCacheImpl

import afcl
from afcl.kernels.compiling import _CacheFiles
from afcl.kernels.sweeping import nothing_swept

CALLEE = """
from afcl.kernels.compiling import compiled

@compiled()
def step(x):
    return x + {}
"""
CALLER = """
from afcl.kernels.callee import step
from afcl.kernels.compiling import compiled

@compiled()
def twice(x):
    return step(step(x))
"""
ASK = (
    "from afcl.kernels.caller import twice; print(twice(10)); "
    "print(sum(twice.stats.cache_hits.values()))"
)
#: The callee alone; and then the caller, which is compiled with its code.
ASK_CALLEE = "from afcl.kernels.callee import step; print(step(10)); "
HITS = "print(sum(step.stats.cache_hits.values())); "
#: Lets intermediate forms that are read be counted.
COUNTED = """
import afcl.kernels.compiling as compiling
forms, parse = [], compiling.parse_bitcode
compiling.parse_bitcode = lambda form: forms.append(form) or parse(form)
"""
#: What a compiler knows of NumPy.
KNOWS = "import sys; print(int('numba.np.arraymath' in sys.modules))"


class Copied:
    """A copy of the kernels with two small ones of which one calls the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernels = folder / "afcl" / "kernels"
        source = Path(afcl.__file__).parent
        self.kernels.mkdir(parents=True)
        (folder / "afcl" / "__init__.py").touch()
        for name in ("_typing.py", "exceptions.py", "parts.py"):
            shutil.copy(source / name, folder / "afcl")
        for module in (source / "kernels").glob("*.py"):
            shutil.copy(module, self.kernels)
        (self.kernels / "caller.py").write_text(CALLER)
        self.change(1)

    def change(self, step: int) -> None:
        """Write the callee, and leave the caller as it is."""
        (self.kernels / "callee.py").write_text(CALLEE.format(step))

    def ask(self, command: str = ASK, **variables: str) -> list[int]:
        """Return the result in a new process, and how often the disk had the code."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("NUMBA", "COV"))
        }
        home = str(self.folder / "home")
        where = {"PYTHONPATH": str(self.folder), "HOME": home, "XDG_CACHE_HOME": home}
        done = subprocess.run(
            [sys.executable, "-c", command],
            env={**kept, **where, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return [int(line) for line in done.stdout.split()]


@pytest.fixture
def copied(tmp_path):
    return Copied(tmp_path)


def test_a_changed_callee_is_seen_by_its_callers(copied):
    assert copied.ask() == [12, 0]
    assert copied.ask() == [12, 1]
    copied.change(5)
    assert copied.ask() == [20, 0]
    assert copied.ask() == [20, 1]
    copied.change(1)
    assert copied.ask() == [12, 1]
    assert list((copied.kernels / "__pycache__").glob("*.nbi"))


def test_a_read_only_installation_uses_the_users_folder(copied):
    (copied.kernels / "__pycache__").touch()  # no folder can be made there
    assert copied.ask() == [12, 0]
    assert copied.ask() == [12, 1]
    copied.change(5)
    assert copied.ask() == [20, 0]
    assert list((copied.folder / "home").rglob("*.nbi"))


def test_without_any_folder_every_process_compiles(copied):
    (copied.kernels / "__pycache__").touch()
    (copied.folder / "home").touch()
    assert copied.ask() == [12, 0]
    assert copied.ask() == [12, 0]


def test_several_processes_at_once(copied):
    copied.ask()
    copied.change(5)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: copied.ask(), range(3)))
    assert [result for result, _ in found] == [20, 20, 20]


def test_without_the_compiler(copied):
    with pytest.raises(subprocess.CalledProcessError):  # a plain function: no `stats`
        copied.ask(NUMBA_DISABLE_JIT="1")


def test_what_only_compilers_read_is_read_when_one_asks_for_it(copied):
    alone = COUNTED + ASK_CALLEE + HITS + "print(len(forms))"
    assert copied.ask(alone) == [11, 0, 0]
    assert copied.ask(alone) == [11, 1, 0]
    # The caller is not on the disk yet; its callee is, and is compiled into it.
    both = COUNTED + ASK_CALLEE + HITS + ASK + "; print(len(forms))"
    assert copied.ask(both) == [11, 1, 12, 0, 1]
    assert copied.ask(both) == [11, 1, 12, 1, 0]


def test_a_file_of_another_form_is_left_to_numba(monkeypatch):
    monkeypatch.setattr(CompileResultCacheImpl, "rebuild", lambda *asked: asked[2])
    files = _CacheFiles.__new__(_CacheFiles)
    for payload in (
        (("name", "bitcode", b"form"), "function"),
        (("name", "object", (b"code", b"form")), "unlike a function's description"),
        ("something", "else"),
    ):
        assert files.rebuild(None, payload) is payload


def test_code_on_disk_is_loaded_without_a_compilers_knowledge(copied):
    command = f"{ASK}; {KNOWS}"
    assert copied.ask(command) == [12, 0, 1]
    assert copied.ask(command) == [12, 1, 0]


@pytest.mark.parametrize("swept", [True, False])
def test_nothing_is_swept_while_loading(swept):
    was = gc.isenabled()
    (gc.enable if swept else gc.disable)()
    try:
        with nothing_swept():
            assert not gc.isenabled()
        assert gc.isenabled() == swept
    finally:
        (gc.enable if was else gc.disable)()
