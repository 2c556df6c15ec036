# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from tests.report.folders import (
    TRUSTED,
    events_of,
    result_of,
    scenarios,
    write_run,
)

from afcl.report import OwnRows, write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = scenarios(tmp_path_factory.mktemp("runs"))
    for folder in made.values():
        write_report(folder)
    return made


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def ground(page):
    """Return how bright the page's ground is, 0 to 255."""
    said = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = [int(part) for part in said.strip("rgba()").split(",")[:3]]
    return sum(parts) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "kind",
    [
        *("plain", "wide", "crowd", "half", "one", "rival", "sure", "none"),
        *("doubtful", "thirty", "running"),
    ],
)
def test_every_page_fits_every_window(show, folders, tmp_path, kind, width, scheme):
    page = show(folders[kind] / "report.html", width, scheme)
    page.screenshot(path=tmp_path / f"{kind}-{width}-{scheme}.png", full_page=True)

    assert fits(page)
    assert (ground(page) < 60) == (scheme == "dark")
    assert page.locator("h1").is_visible()
    assert page.locator("h2").count() == (5 if kind in TRUSTED else 4)


@pytest.mark.parametrize(
    "kind", ["flat", "line", "coordinator", "failed", "site", "standing"]
)
def test_other_folders_have_calm_pages_too(show, folders, kind):
    assert fits(show(folders[kind] / "report.html", 390))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_marker_sits_at_the_chosen_k(show, folders, width):
    result = json.loads((folders["plain"] / "result.json").read_text())
    k = result["n_clusters"]
    page = show(folders["plain"] / "report.html", width)
    middle = """mark => {
        const box = mark.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
    }"""
    curve = page.locator("svg.k-path").first
    ring = curve.locator(f'[data-chosen="{k}"]').evaluate(middle)
    dot = curve.locator(f'[data-k="{k}"]').evaluate(middle)
    ticks = {
        float(tick.get_attribute("data-at")): tick.evaluate(middle)[0]
        for tick in curve.locator("text[data-at]").all()
    }
    (low, left), (high, right) = min(ticks.items()), max(ticks.items())
    place = left + (k - low) / (high - low) * (right - left)

    assert ring == pytest.approx(dot, abs=0.6)
    assert ring[0] == pytest.approx(place, abs=1.5)
    # No other k scores higher.
    heights = [
        curve.locator(f'[data-k="{level["k"]}"]').evaluate(middle)[1]
        for level in result["path"]
    ]
    assert min(heights) == pytest.approx(dot[1], abs=0.1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_only_what_can_be_believed_looks_like_a_success(show, folders, scheme):
    def looks(kind):
        page = show(folders[kind] / "report.html", scheme=scheme)
        colour = "e => getComputedStyle(e).color"
        border = "e => getComputedStyle(e).borderLeftColor"
        sign = "e => getComputedStyle(e, '::before').content"
        badge = page.locator("#status")
        return (
            badge.evaluate(colour),
            badge.evaluate(sign),
            page.locator(".trust").evaluate(border),
        )

    good, tick, edge = looks("sure")
    assert tick == '"✓ "'
    for kind in ("none", "unclear", "doubtful"):
        colour, sign, border = looks(kind)
        assert colour != good
        assert sign != tick
        assert border != edge


@pytest.mark.parametrize("width", [390, 1280])
def test_trust_comes_first_and_leads_to_other_levels(show, folders, width):
    page = show(folders["sure"] / "report.html", width)
    tops = [
        page.locator(place).first.bounding_box()["y"]
        for place in ("h1", "#trust", ".tiles", "#path")
    ]
    assert tops == sorted(tops)
    # The bars by keyboard.
    page.locator("svg.shares-of-k [data-tip]").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").text_content() == "k = 3: 96% of the resamples"
    # The link brings the level and its curve into view; the mark stands below it.
    page.locator(".trust a", has_text="5").click()
    page.wait_for_function(
        """() => {
            const box = document.querySelector("#k-5:target").getBoundingClientRect();
            return box.top >= 200 && box.bottom <= innerHeight;
        }"""
    )
    middle = """mark => {
        const box = mark.getBoundingClientRect();
        return box.left + box.width / 2;
    }"""
    tick = page.locator('[data-believable="5"]').evaluate(middle)
    assert tick == pytest.approx(page.locator("#k-5").evaluate(middle), abs=1.5)


def test_switching_a_site_changes_the_bars(show, folders):
    result = json.loads((folders["plain"] / "result.json").read_text())
    page = show(folders["plain"] / "report.html")
    bars = page.locator("svg.sizes rect[data-cluster]")
    texts = page.locator("svg.sizes text.bar-text")

    def widths():
        return bars.evaluate_all("all => all.map(b => Number(b.getAttribute('width')))")

    everybody = widths()
    before = texts.all_text_contents()
    page.locator("#site").select_option(label="site-2")
    own = result["sites"][2]["sizes"]
    ratio = [width / size for width, size in zip(widths(), own, strict=True)]

    assert widths() != everybody
    assert ratio == pytest.approx([ratio[0]] * len(own), rel=1e-3)
    assert [int(text.split(" ")[0]) for text in texts.all_text_contents()] == own
    assert "site-2" in bars.first.get_attribute("aria-label")
    page.locator("#site").select_option(label="all sites")
    assert widths() == pytest.approx(everybody, abs=0.01)
    assert texts.all_text_contents() == before


def test_pointer_and_keyboard_tell_the_same(show, folders):
    page = show(folders["plain"] / "report.html")
    tip = page.locator("#tip")
    merge = page.locator("svg.tree .branch").last
    merge.dispatch_event("pointerover", {"bubbles": True, "clientX": 300})

    assert tip.is_visible()
    assert "rows" in tip.text_content()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    # The first stop inside the curve, then along it with the arrows.
    page.locator("svg.k-path [data-tip]").first.focus()
    assert tip.text_content().startswith("k = 2:")
    page.keyboard.press("ArrowRight")
    assert tip.text_content().startswith("k = 3:")
    assert tip.text_content().endswith("chosen")
    page.keyboard.press("End")
    assert tip.text_content().startswith("k = 11:")
    page.keyboard.press("Home")
    assert tip.text_content().startswith("k = 2:")
    assert page.locator('svg.k-path >> nth=0 >> [tabindex="0"]').count() == 1


def test_everything_is_reached_by_the_tab_key(show, folders):
    page = show(folders["sure"] / "report.html")
    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                """() => {
                    const at = document.activeElement;
                    const group = at.closest("[data-marks]");
                    const picture = group && group.closest("svg, table");
                    return (picture && picture.getAttribute("class"))
                        || at.id || at.className || at.tagName;
                }"""
            )
        )
    assert {"site", "A", "SUMMARY", "profile", "participation"} <= seen
    assert {"figure k-path", "figure tree", "figure sizes", "figure map"} <= seen
    assert "figure shares-of-k" in seen


def test_arrows_walk_tables_in_two_directions(show, folders):
    page = show(folders["plain"] / "report.html")
    page.locator("table.profile [data-tip]").first.focus()
    start = page.locator("#tip").text_content()
    page.keyboard.press("ArrowDown")
    below = page.locator("#tip").text_content()
    assert start.split(",")[0] == below.split(",")[0] == "Cluster 0"
    assert start != below
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").text_content().startswith("Cluster 1")


def test_printed_it_is_white_and_whole(show, folders, tmp_path):
    page = show(folders["wide"] / "report.html", 1280, "dark")
    page.emulate_media(media="print", color_scheme="dark")

    assert ground(page) == 255
    assert not page.locator("nav").is_visible()
    assert not page.locator("#site").is_visible()
    box = page.locator(".scroll.tall").first
    assert box.evaluate("b => b.scrollHeight <= b.clientHeight + 1")
    page.pdf(path=tmp_path / "wide.pdf", format="A4")
    assert (tmp_path / "wide.pdf").stat().st_size > 10_000


def test_hostile_names_do_nothing(show, tmp_path):
    name = "</script><script>window.pwned=1</script><img src=x onerror=alert(1)>"
    result, events = result_of(), events_of()
    for site in result["sites"]:
        site["name"] = name
    result["columns"] = [name, "b", "c"]
    events[0]["clients"] = [name] * 4
    page = show(write_report(write_run(tmp_path, result, events)))
    page.locator("#site").select_option(index=1)
    page.locator("svg.sizes rect[data-cluster]").first.focus()

    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert name in page.locator("#tip").text_content()


def test_a_site_sees_its_rows_on_its_own_page(show, tmp_path):
    import numpy as np

    folder = scenarios(tmp_path)["site"]
    rng = np.random.default_rng(0)
    own = OwnRows(10 + 5 * rng.random((300, 3)), rng.integers(0, 3, 300))
    page = show(write_report(folder, own))
    assert page.locator("path.row").count() == 3


def boxes_of(page, selector):
    """Return where the elements are: (left, top, right, bottom)."""
    found = []
    for one in page.locator(selector).all():
        box = one.bounding_box()
        right, bottom = box["x"] + box["width"], box["y"] + box["height"]
        found.append((box["x"], box["y"], right, bottom))
    return found


def apart(one, other):
    across = one[2] <= other[0] or other[2] <= one[0]
    return across or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    ("kind", "many"), [("plain", 3), ("one", 1), ("thirty", 30), ("crowd", 20)]
)
def test_every_cluster_has_a_card(show, folders, kind, many, width, scheme):
    page = show(folders[kind] / "report.html", width, scheme)
    assert page.locator("article.card").count() == many
    assert page.locator(".why").first.locator("article.card").count() == min(many, 12)
    shown = boxes_of(page, ".why >> nth=0 >> article.card")
    for place, one in enumerate(shown):
        assert all(apart(one, other) for other in shown[place + 1 :])
        assert one[2] <= width
    if many > 12:
        page.locator("summary", has_text="more clusters").click()
        assert page.locator("article.card").last.is_visible()
        assert fits(page)
    first = page.locator("article.card").first
    said = first.inner_text()
    assert ("x0 ≥ 12.5: 93% of this cluster" in said) == (many > 1)
    assert page.locator(".strips").count() == (many if many > 1 else 0)
    if many > 1:
        # Names and figures of a strip do not run into each other.
        words = boxes_of(page, "article.card >> nth=0 >> .strips text")
        for place, one in enumerate(words):
            assert all(apart(one, other) for other in words[place + 1 :])


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["plain", "thirty", "crowd"])
def test_the_name_of_the_cut_meets_no_branch(show, folders, kind, width):
    page = show(folders[kind] / "report.html", width)
    (name,) = boxes_of(page, ".tree .label")
    branches = boxes_of(page, ".tree .branch")
    assert branches
    assert all(apart(name, branch) for branch in branches)
    assert name[2] <= width


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["thirty", "crowd"])
def test_bars_and_their_numbers_stay_apart(show, folders, kind, width):
    page = show(folders[kind] / "report.html", width)
    numbers = boxes_of(page, ".sizes text.bar-text")
    assert len(numbers) == (30 if kind == "thirty" else 20)
    for one, other in pairwise(numbers):
        # Lines of text may touch, letters must not.
        assert other[1] - one[1] >= 0.7 * (one[3] - one[1])
    bars = boxes_of(page, ".sizes .bar")
    for bar, beside in zip(bars, numbers, strict=True):
        assert apart(bar, beside)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_markers_leave_room_for_signs_and_spreads(show, tmp_path, width, scheme):
    result = result_of(k=4)
    centers = np.array(result["centers"]) - 14.0
    result["centers"] = centers.tolist()
    result["scale"]["low"] = [-4.0] * 3
    page = show(write_report(write_run(tmp_path, result)), width, scheme)
    assert page.locator(".profile .sign").count() > 3
    for cell in page.locator(".profile td.mark:has(.sign)").all():
        sign = cell.locator(".sign").first.bounding_box()
        inside = cell.bounding_box()
        words = cell.evaluate(
            "cell => { const range = document.createRange();"
            " range.setStart(cell.childNodes[1], 0); range.setEndAfter(cell.lastChild);"
            " const box = range.getBoundingClientRect(); return [box.left, box.right] }"
        )
        if cell.locator(".sign").first.inner_text():
            assert sign["x"] + sign["width"] <= words[0]
        assert words[1] <= inside["x"] + inside["width"]
