# SPDX-License-Identifier: Apache-2.0
"""The house stays as small as it is: modules, functions, and one meaning a class name.

Lines of a function are those of its body: a signature and a docstring are for readers.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import afcl

ROOT = Path(afcl.__file__).parent
LONGEST_MODULE = 450
MEDIAN_MODULE = 170
LONGEST_FUNCTION = 60
#: Longer ones, which may not grow. A kernel of the GPU is compiled as one function; a
#: sixth of the command's lines are imports, which wait until it is called.
LONGER = {"kernels/gpu/fused.py:pass_kernel": 192, "cli/run.py:_clustered": 73}
#: Names with two meanings: a privacy level is public under this name and a level of the
#: path is, on the wire; a run stands somewhere, and a federation is a standing one.
TWO_MEANINGS = {"Level", "Standing"}


def modules(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
    }


def too_long(sources: dict[str, str]) -> dict[str, int]:
    lines = {name: len(source.splitlines()) for name, source in sources.items()}
    return {name: n for name, n in lines.items() if n > LONGEST_MODULE}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    assert function.end_lineno is not None
    return function.end_lineno - body[0].lineno + 1


def long_functions(sources: dict[str, str]) -> Iterator[str]:
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                where = f"{name}:{node.name}"
                if body_lines(node) > LONGER.get(where, LONGEST_FUNCTION):
                    yield where


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    return {name: where for name, where in places.items() if len(where) > 1}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return modules(ROOT)


def test_no_module_is_too_long(sources):
    assert too_long(sources) == {}


def test_the_median_module_is_short(sources):
    lengths = [len(source.splitlines()) for source in sources.values()]
    assert len(lengths) > 100
    assert median(lengths) <= MEDIAN_MODULE


def test_no_function_is_too_long(sources):
    assert list(long_functions(sources)) == []


def test_a_class_name_has_one_meaning(sources):
    shared = shared_names(sources)
    assert {name: shared[name] for name in shared if name not in TWO_MEANINGS} == {}


def test_what_is_too_long_is_found():
    lines = "\n".join(f"    x{i} = {i}" for i in range(61))
    source = f'def f(a,\n      b):\n    """D.\n\n    E.\n    """\n{lines}\n'
    assert list(long_functions({"m.py": source})) == ["m.py:f"]
    shorter = source.replace("    x60 = 60\n", "")
    assert list(long_functions({"m.py": shorter})) == []
    empty = ast.parse('def f():\n    """D."""\n').body[0]
    assert isinstance(empty, ast.FunctionDef)
    assert body_lines(empty) == 0
    assert too_long({"m.py": "x\n" * 451, "n.py": "x\n" * 450}) == {"m.py": 451}
    twice = {"a.py": "class A: ...\nclass B: ...", "b.py": "class A: ..."}
    assert shared_names(twice) == {"A": ["a.py", "b.py"]}
