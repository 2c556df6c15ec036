# SPDX-License-Identifier: Apache-2.0
"""The live page in a real browser, following a folder as it grows."""

from __future__ import annotations

import re
import time

import pytest
from tests.report.folders import (
    TRUSTED,
    events_of,
    prepare,
    result_of,
    to_lines,
    write_run,
)

pytestmark = pytest.mark.browser

#: Seconds within which something new must be seen.
SOON = 3.0


def append(folder, *events):
    with open(folder / "trace.jsonl", "a") as lines:
        lines.write(to_lines(list(events)))
        lines.flush()


def fresh(**changes):
    """A trace that was written just now."""
    return events_of(end=False, at=time.time() - 40, **changes)


def wait_for(page, text, seconds=SOON):
    """Wait until the status says so; return how long that took."""
    began = time.monotonic()
    page.locator("#status", has_text=text).wait_for(timeout=1000 * seconds)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")],
)
def test_a_run_from_its_beginning_to_its_end(show, board, tmp_path, width, scheme):
    folder = tmp_path / "run"
    page = show(board(folder).url, width, scheme)
    wait_for(page, "waiting for the run to begin")

    write_run(folder, None, fresh())
    wait_for(page, "running: round 5, k = 3 so far")
    append(folder, prepare(6, 4, at=time.time()))
    took = wait_for(page, re.compile("round 6, k = 4"))
    page.locator("h1", has_text="4 clusters so far").wait_for(timeout=1000 * SOON)
    page.locator('circle[data-tip^="round 6:"]').first.wait_for(timeout=1000 * SOON)
    assert took < SOON
    page.screenshot(path=tmp_path / f"live-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    write_run(folder, result_of())
    wait_for(page, "done")
    page.locator("h1", has_text="3 clusters").wait_for(timeout=1000 * SOON)
    page.locator('svg.k-path [data-chosen="3"]').first.wait_for(timeout=1000 * SOON)


def test_the_end_of_a_run_without_clusters(show, board, tmp_path):
    folder = write_run(tmp_path / "run", None, fresh())
    page = show(board(folder).url)
    wait_for(page, "running")
    write_run(folder, result_of(1, **TRUSTED["none"]))
    wait_for(page, "done")
    page.locator("h1", has_text="No clusters found").wait_for(timeout=1000 * SOON)
    page.wait_for_function("document.title === 'done · No clusters found'")
    assert page.locator("#status").get_attribute("class") == "status is-doubtful"
    assert page.locator("#trust").is_visible()


def test_a_failed_run_says_why(show, board, tmp_path):
    folder = write_run(tmp_path / "run", None, fresh(), plan={"min_clients": 2})
    append(folder, {"event": "agreed", "tick": 0, "columns": [], "rows": 9})
    page = show(board(folder).url)
    wait_for(page, "running")
    write_run(folder, failed={"reason": "the disk is full"})
    wait_for(page, "failed: the disk is full")


def test_a_silent_site_is_named(show, board, tmp_path):
    events = events_of(end=False, at=time.time() - 12.2 * 60 - 40)
    ask = {"event": "send", "tick": 6, "contact": 6, "version": 1, "bytes": 1}
    late = {**ask, "client": 1, "at": events[-1]["at"]}
    page = show(board(write_run(tmp_path / "run", None, [*events, late])).url)
    wait_for(page, re.compile(r"stalled: site-1 silent for 1\d min"))


def test_what_the_reader_chose_stays(show, board, tmp_path):
    folder = write_run(tmp_path / "run", result_of(), fresh())
    page = show(board(folder).url)
    wait_for(page, "done")
    page.locator("#site").select_option(label="site-1")
    chosen = page.locator("svg.sizes text.bar-text").all_text_contents()
    page.locator("summary", has_text="Every round").click()
    page.evaluate("scrollTo({top: 700, behavior: 'instant'})")
    append(folder, prepare(6, 3, at=time.time()))
    page.locator('circle[data-tip^="round 6:"]').first.wait_for(
        timeout=1000 * SOON, state="attached"
    )

    assert page.evaluate("scrollY") == 700
    assert page.locator("#site").evaluate("s => s.selectedOptions[0].text") == "site-1"
    assert page.locator("svg.sizes text.bar-text").all_text_contents() == chosen
    opened = page.locator("details", has_text="Every round")
    assert opened.evaluate("d => d.open")


def test_a_server_that_comes_back_is_found_again(show, board, tmp_path):
    folder = write_run(tmp_path / "run", None, fresh())
    first = board(folder)
    # While the server is away the browser itself complains, as it should.
    page = show(first.url, calm=False)
    wait_for(page, "running: round 5")
    first.end()
    wait_for(page, "no connection to the dashboard", 5)
    append(folder, prepare(6, 4, at=time.time()))
    board(folder, first.port)
    wait_for(page, "running: round 6, k = 4", 8)
    append(folder, prepare(7, 5, at=time.time()))
    wait_for(page, "running: round 7, k = 5")
    page.locator("h1", has_text="5 clusters so far").wait_for(timeout=1000 * SOON)


def test_the_server_ends_while_pages_are_open(show, board, tmp_path):
    made = board(write_run(tmp_path / "run", result_of()))
    page = show(made.url, calm=False)
    wait_for(page, "done")
    began = time.monotonic()
    made.end()
    assert time.monotonic() - began < 5
