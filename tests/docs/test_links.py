# SPDX-License-Identifier: Apache-2.0
"""Links of README and docs lead somewhere, in the repository and on the site."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]


def links_of(text: str) -> list[str]:
    """Return the targets of links and pictures outside of code."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"`[^`\n]*`", "", plain)
    return re.findall(r"\]\(([^)\s]+)\)", plain)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in titles]
    return {re.sub(r"\s+", "-", title) for title in plain}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in links_of(path.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors_of(target.read_text()), f"{link}: no such heading"
        if path.is_relative_to(DOCS):
            assert target.is_relative_to(DOCS), f"{link} leaves docs: no such page"


@pytest.fixture(scope="module")
def made():
    """The script that draws the pictures, as a module."""
    spec = importlib.util.spec_from_file_location("made", DOCS / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_picture_is_shown_and_every_one_shown_is_made(made):
    there = {path.stem for path in (DOCS / "pictures").glob("*.svg")}
    assert there == set(made.PICTURES)
    for name, (page, _) in made.PICTURES.items():
        assert f"pictures/{name}.svg" in (DOCS / page).read_text(encoding="utf-8")


def test_every_photograph_is_shown_somewhere():
    """Screenshots and benchmark plots are no code's output; a page must show each."""
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for path in (DOCS / "pictures").glob("*.png"):
        assert f"pictures/{path.name}" in text


def test_pictures_show_what_the_pages_compute(made, tmp_path):
    """The script draws anew what is committed, up to the last digits."""
    made.main(tmp_path)
    for path in sorted((DOCS / "pictures").glob("*.svg")):
        words = [
            re.findall(r">([^<>\n]+)</text>", where.read_text(encoding="utf-8"))
            for where in (path, tmp_path / path.name)
        ]
        assert words[0] == words[1], f"{path.name} is old: make pictures"


def test_a_link_that_leads_nowhere_would_be_seen():
    text = "[a](x.md#b-c) ![p](p.svg) `[no](z)`\n```\n[no](y)\n```\n# B: c!\n"
    assert links_of(text) == ["x.md#b-c", "p.svg"]
    assert anchors_of(text) == {"b-c"}
