# SPDX-License-Identifier: Apache-2.0
"""The page as a whole: well formed, self-contained, safe, readable in both schemes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from afcl.exceptions import InputError
from afcl.report import REPORT, render, write_report
from afcl.report.markup import VOID
from afcl.report.page import asset, policy

from .folders import events_of, result_of, scenarios, write_run

LARGEST = 6_000_000
HOSTILE = """</script><script>window.pwned=1</script>"><img src=x onerror='alert(1)'>"""


class Strict(HTMLParser):
    """Fails on tags that do not match; remembers what a page is made of."""

    def __init__(self, page):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str | None] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "action", "data"):
                self.links.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folders = scenarios(tmp_path_factory.mktemp("runs"))
    return {name: render(folder) for name, folder in folders.items()}


KINDS = (
    "plain flat line wide crowd half one rival no-centers coordinator failed site "
    "waiting sure none unclear doubtful"
).split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_whole_small_and_alone(pages, kind):
    page = pages[kind]
    seen = Strict(page)

    assert len(page.encode()) < LARGEST
    assert len(seen.ids) == len(set(seen.ids))
    # Nothing is loaded from anywhere, and links stay on the page.
    assert all(link == "data:," or link[1:] in seen.ids for link in seen.links)
    assert not re.search(r"https?://", page)
    assert {"path", "clusters", "map", "run", "status", "tip"} <= set(seen.ids)
    assert seen.seen.count("h1") == 1
    assert "None" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert "nan" not in re.findall(r'="([^"]*)"', page)


def test_a_big_run_stays_small(tmp_path):
    folder = write_run(
        tmp_path,
        result_of(k=30, n_features=40, n_sites=200, n_seeds=256),
        events_of(n_sites=200, rounds=100, n_features=40, n_seeds=256),
    )
    assert len(render(folder)) < LARGEST / 3


def test_every_picture_says_what_it_shows(pages):
    for page in pages.values():
        for picture in re.findall(r"<svg[^>]*class=\"figure[^>]*>", page):
            assert 'role="img"' in picture
            assert 'aria-label="' in picture
        for mark in re.findall(r"<(?:rect|circle|path)[^>]*data-tip[^>]*>", page):
            assert "aria-label=" in mark


def test_names_cannot_become_markup(tmp_path):
    result, events = result_of(), events_of()
    result["columns"][0] = HOSTILE
    for site in result["sites"]:
        site["name"] = HOSTILE
    result["parameters"]["privacy"] = HOSTILE
    result["parameters"]["method"] = HOSTILE
    result["versions"] = {HOSTILE: HOSTILE}
    events[0]["clients"] = [HOSTILE] * 4
    events.append({"event": "note", "tick": 0, "text": HOSTILE})
    events.append({"event": "refused", "tick": 0, "name": HOSTILE, "reason": HOSTILE})
    extra = {"tick": 1, "client": 0, "contact": 1, "reason": HOSTILE}
    events += [{"event": "rejected", **extra}, {"event": "failure", **extra}]
    page = render(write_run(tmp_path, result, events))
    failed = render(
        write_run(
            tmp_path / "failed", None, events, failed={"reason": HOSTILE}, plan={}
        )
    )

    for text in (page, failed):
        seen = Strict(text)
        assert "img" not in seen.seen
        assert seen.seen.count("script") == text.count("<script")
        assert "<script>window.pwned" not in text
    # The page's own program and the numbers it reads.
    assert Strict(page).seen.count("script") == 2


def test_only_the_pages_own_program_may_run(pages):
    said = policy([asset("page.js")])
    assert "'unsafe-inline'" not in said.split("script-src")[1].split(";")[0]
    assert said.replace("'", "&#x27;") in pages["plain"]
    # What a policy by hash needs: the text between the tags, unchanged.
    assert f"<script>{asset('page.js')}</script>" in pages["plain"]
    assert "</script" not in asset("page.js")


def test_whose_rows_are_in_no_sum_is_told(tmp_path):
    note = "Sums over sites hold the rows of 3 of 4 sites"
    write_run(tmp_path / "some", result_of(note=note), events_of())
    assert note in render(tmp_path / "some")
    write_run(tmp_path / "all", result_of(), events_of())
    assert "Sums over sites" not in render(tmp_path / "all")


def test_a_page_is_written_whole(tmp_path):
    folder = scenarios(tmp_path)["plain"]
    path = write_report(folder)
    assert path == folder / REPORT
    assert path.read_text(encoding="utf-8") == render(folder)
    assert not list(folder.glob("*.part"))
    with pytest.raises(InputError):
        write_report(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


# ------------------------------------------------------------------ contrast


def variables(block):
    return dict(re.findall(r"--([a-z]+\d?): ([^;]+);", block))


def schemes():
    css = asset("page.css")
    light = variables(css.split("@media")[0])
    dark = variables(css.split("dark) {")[1].split("}")[0])
    paper = variables(css.split("@media print")[1])
    return {"light": light, "dark": light | dark, "print": light | paper}


def rgb(colour):
    if colour.startswith("#"):
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return [int(part) for part in colour.split(",")]


def luminance(colour):
    parts = [c / 255 for c in colour]
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_can_be_read(scheme):
    values = schemes()[scheme]
    for name in ("ink", "soft", "link", "good", "bad", "wait"):
        for ground in ("paper", "card"):
            assert contrast(rgb(values[name]), rgb(values[ground])) >= 4.5, name
    for c in range(8):
        assert contrast(rgb(values[f"t{c}"]), rgb(values[f"c{c}"])) >= 4.5, c
    # Marks have an outline that stands out where their colour does not.
    assert contrast(rgb(values["edge"]), rgb(values["card"])) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_tinted_numbers_can_be_read(scheme):
    values = schemes()[scheme]
    tints = re.findall(
        r"\.(up|down)\d \{ background: rgba\(var\(--\w+\), ([.\d]+)\)",
        asset("page.css"),
    )
    assert len(tints) == 8
    for side, share in tints:
        over, under = rgb(values[side]), rgb(values["paper"])
        mixed = [
            float(share) * a + (1 - float(share)) * b
            for a, b in zip(over, under, strict=True)
        ]
        assert contrast(rgb(values["ink"]), mixed) >= 4.5
