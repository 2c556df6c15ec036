# SPDX-License-Identifier: Apache-2.0
"""Who took part when: a site a row, a round a column."""

from __future__ import annotations

import math

from afcl.report.events import ANSWERED, ASKED, LATE, TROUBLE, Course
from afcl.report.facts import Facts
from afcl.report.markup import Html, count, join, tag

#: Sites with a row of their own, and columns; more are put together.
ROWS, COLUMNS = 40, 50
#: What a cell shows, so that colour is never alone.
GLYPHS = {ANSWERED: "●", LATE: "◐", TROUBLE: "×", ASKED: "○"}
NAMES = {
    ANSWERED: "answered",
    LATE: "answered late (to an older version)",
    TROUBLE: "rejected or no answer",
    ASKED: "asked, no answer at that time",
}
_WEIGHT = (TROUBLE, LATE, ANSWERED, ASKED)


def participation(facts: Facts, step: str) -> Html | None:
    """Return the table of who took part when."""
    course = facts.course
    if not course.cells:
        return None
    width = math.ceil(course.ticks / COLUMNS)
    bins = [
        range(first, min(first + width, course.ticks))
        for first in range(0, course.ticks, width)
    ]
    order = _order(course)
    shown, rest = order[:ROWS], order[ROWS:]
    head = [tag("th", "site", scope="col")]
    head += [tag("th", _column(steps), scope="col") for steps in bins]
    body = [_row(course, client, bins, step) for client in shown]
    if rest:
        body.append(_others(course, rest, bins, step))
    legend = [
        tag("span", tag("b", GLYPHS[what], class_=f"p-{what}"), f" {name}")
        for what, name in NAMES.items()
    ]
    return join(
        tag("h3", "Who took part when"),
        tag("p", _said(len(rest), width, step)),
        tag("p", legend, class_="legend"),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", head)),
                tag("tbody", body, data_marks=True),
                class_="participation",
            ),
            class_="scroll tall" if len(body) > 16 else "scroll",
            tabindex=0,
            role="region",
            aria_label=f"Participation by site and {step}",
        ),
    )


def _said(others: int, width: int, step: str) -> str:
    text = f"A row is a site, a column a {step}; {step} 0 is the first message."
    if width > 1:
        text += (
            f" A column stands for {width} {step}s and shows the weightiest of them."
        )
    if others:
        text += (
            f" The {ROWS} sites with most trouble, then most rows, have a row of their "
            f"own; the last row counts the answers of the {others} others."
        )
    return text


def _order(course: Course) -> list[int]:
    clients = list(course.sites)
    if len(clients) <= ROWS:
        return clients

    def weight(client: int) -> tuple[int, int]:
        site = course.sites[client]
        return -(len(site.rejected) + len(site.failures) + site.late), -site.rows

    return sorted(clients, key=weight)


def _column(steps: range) -> str:
    return str(steps[0]) if len(steps) == 1 else f"{steps[0]}–{steps[-1]}"


def _row(course: Course, client: int, bins: list[range], step: str) -> Html:
    name = course.sites[client].name
    cells = []
    for steps in bins:
        seen = [course.cells[(client, t)] for t in steps if (client, t) in course.cells]
        if not seen:
            cells.append(tag("td"))
            continue
        what = next(kind for kind in _WEIGHT if kind in seen)
        answers = sum(kind in (ANSWERED, LATE) for kind in seen)
        tip = f"{name}, {step} {_column(steps)}: {NAMES[what]}"
        if len(steps) > 1:
            tip += f" ({count(answers, 'answer')})"
        glyph = GLYPHS[what]
        cells.append(tag("td", glyph, class_=f"mark p-{what}", data_tip=tip))
    return tag("tr", tag("th", name, scope="row"), cells)


def _others(course: Course, rest: list[int], bins: list[range], step: str) -> Html:
    cells = []
    for steps in bins:
        answers = sum(
            course.cells.get((client, t)) in (ANSWERED, LATE)
            for client in rest
            for t in steps
        )
        tip = (
            f"{len(rest)} other sites, {step} {_column(steps)}: "
            f"{count(answers, 'answer')}"
        )
        cells.append(
            tag("td", answers or "", class_="mark p-count", data_tip=tip)
            if answers
            else tag("td")
        )
    return tag("tr", tag("th", f"{len(rest)} others", scope="row"), cells)
