# SPDX-License-Identifier: Apache-2.0
"""The site is built strictly, and loads nothing from anywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What a browser would fetch by itself; a link that somebody follows is another thing.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?((?:https?:)?//[^\s\">]+)"
    r"|<link\b[^>]*\brel=\"?(?:stylesheet|preload|preconnect|icon)\b[^>]*"
    r"\bhref=\"?((?:https?:)?//[^\s\">]+)"
)


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build as `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(folder)],
        cwd=config.parent,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_there_and_fetches_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    sources = list((ROOT / "docs").rglob("*.md"))
    assert len(pages) == len(sources) + 1  # and the page for what is not found
    for page in pages:
        found = FETCHED.findall(page.read_text(encoding="utf-8"))
        assert found == [], page.name
    assert not list(site.rglob("*.py"))


def test_the_reference_has_what_is_public(site):
    import afcl
    from afcl_bench import plots

    page = (site / "api.html").read_text(encoding="utf-8")
    for name in afcl.__all__:
        assert re.search(rf'id="afcl\.[a-z_.]*\b{name}"', page), name
    for name in (name for name in plots.__all__ if name.islower()):
        assert f'id="afcl_bench.plots.{name}"' in page, name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[there](nowhere.md)", "'nowhere.md'"),
        ("[there](index.md#nothing)", "no such anchor"),
        ("[there](/index.md)", "absolute link"),
    ],
)
def test_a_broken_link_ends_the_build(text, message, tmp_path):
    """With the settings of the site, but a page of its own."""
    pytest.importorskip("mkdocs")
    settings, _ = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n{text}\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert message in done.stderr


def test_what_is_fetched_would_be_seen():
    for text in (
        '<script src="https://a.example/x.js">',
        "<img alt=x src=//a.example/x.png>",
        '<link rel="stylesheet" href="https://a.example/x.css">',
    ):
        assert FETCHED.search(text)
    assert not FETCHED.search('<a href="https://a.example">there</a>')
