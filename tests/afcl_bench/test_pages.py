# SPDX-License-Identifier: Apache-2.0
"""The tables of a page are what the runs that are published beside it give."""

from __future__ import annotations

from pathlib import Path

import pytest

from afcl_bench.frame import frame_of
from afcl_bench.kept import with_kept
from afcl_bench.published import is_kept, path_of
from afcl_bench.report import made_of, renew
from afcl_bench.spec import find_spec, spec_names
from afcl_bench.tables import Table

PAGES = Path(__file__).parents[2] / "docs" / "results"
PUBLISHED = [
    name
    for name in spec_names()
    if is_kept(find_spec(name)) and path_of(PAGES, find_spec(name)).is_file()
]


def test_every_published_file_belongs_to_a_page():
    found = {path_of(PAGES, find_spec(name)) for name in PUBLISHED}
    assert found == set(PAGES.glob("runs/*.csv.gz"))
    # It looks at the runs of another page.
    assert "significance" in PUBLISHED


@pytest.mark.no_cover
@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_are_those_of_the_published_runs(tmp_path, name):
    spec = find_spec(name)
    made = made_of(spec, with_kept(spec, frame_of([]), PAGES))
    for each in made:
        if not isinstance(each, Table):
            (tmp_path / f"{each.name}.png").touch()
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    page = tmp_path / "page" / f"{name}.md"
    page.parent.mkdir()
    page.write_text(text, encoding="utf-8")
    renew(page, made, tmp_path)
    assert page.read_text(encoding="utf-8") == text
