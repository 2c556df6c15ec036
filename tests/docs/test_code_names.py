# SPDX-License-Identifier: Apache-2.0
"""Functions, classes, files and tests that the pages name exist."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "docs/paper.md",
    "docs/how-it-works.md",
    "docs/decisions/0045-a-page-that-is-played.md",
    "CONTRIBUTING.md",
)
#: Endings of files that are in the repository; others are written by runs.
KEPT = (".py", ".md", ".toml")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?")
FILE = re.compile(r"[\w./-]+\.(py|md|toml|json|jsonl|csv|npz|html|txt|yml)")
#: What the reader puts a name of their own for.
PLACEHOLDER = re.compile(r"\b[A-Z]+\.py")
#: A test's name, with … for what is left out.
TEST = re.compile(r"(…|test_)\w*…?")


@cache
def modules() -> tuple[str, ...]:
    """Return the dotted names of all modules of the packages in src."""
    files = (ROOT / "src").rglob("*.py")
    paths = (file.relative_to(ROOT / "src").with_suffix("") for file in files)
    return tuple(".".join(path.parts).removesuffix(".__init__") for path in paths)


@cache
def classes() -> dict[str, list[str]]:
    """Return every class's name, and the modules that define one of that name."""
    found: dict[str, list[str]] = {}
    for module in modules():
        path = ROOT / "src" / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


@cache
def names_of_tests() -> frozenset[str]:
    """Return the names of all tests."""
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(
        name for text in texts for name in re.findall(r"def (test_\w+)", text)
    )


def has(thing: Any, names: list[str]) -> bool:
    """Whether attributes of attributes exist; a dataclass's field is one."""
    for name in names:
        if name in getattr(thing, "__dataclass_fields__", {}):
            return True
        if not hasattr(thing, name):
            return False
        thing = getattr(thing, name)
    return True


def exists(name: str) -> bool:
    """Whether a code span stands for something; what looks like no name, does."""
    if FILE.fullmatch(name):
        places = [ROOT / folder for folder in ("src", "tests", "docs", "benchmarks")]
        kept = name.endswith(KEPT) and not PLACEHOLDER.search(name)
        return (
            not kept
            or (ROOT / name).exists()
            or any(any(place.rglob(name)) for place in places)
        )
    if TEST.fullmatch(name):
        form = re.compile(re.escape(name).replace("…", r"\w*"))
        return any(form.fullmatch(test) for test in names_of_tests())
    if not DOTTED.fullmatch(name):
        return True
    parts = name.removesuffix("()").split(".")
    starts = [(module, parts[1:]) for module in classes().get(parts[0], [])]
    if any(has(importlib.import_module(m), [parts[0], *rest]) for m, rest in starts):
        return True
    for length in range(len(parts), 0, -1):
        end = "." + ".".join(parts[:length])
        for module in modules():
            if f".{module}".endswith(end):
                if has(importlib.import_module(module), parts[length:]):
                    return True
    return False


def names_of(text: str) -> list[str]:
    """Return the code spans of a page, blocks left out."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", plain)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    names = names_of((ROOT / page).read_text(encoding="utf-8"))
    missing = sorted({name for name in names if not exists(name)})
    assert not missing, f"{page} names what is not there: {', '.join(missing)}"


@pytest.mark.parametrize(
    "name",
    [
        "kernels.nothing",
        "nothing.at_all",
        "AfclPaper.nothing",
        "core/nothing.py",
        "test_nothing_of_this_name",
        "state.ServerState.nothing",
    ],
)
def test_what_does_not_exist_is_found_out(name):
    assert not exists(name)
