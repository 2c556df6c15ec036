# SPDX-License-Identifier: Apache-2.0
"""Who took part when: a site a row, a round a column."""

from __future__ import annotations

import math

from afcl._typing import Ints
from afcl.report.markup import Html, count, join, tag
from afcl.report.run_folder import RunFolder
from afcl.report.tables import scroll_table
from afcl.trace import Attendance, RunHistory, attendance

#: Sites with a row of their own; the others share one.
ROWS = 40
#: Columns; with more rounds, several share one.
COLUMNS = 50
#: What a cell shows, so that colour is never alone, and what that means.
SIGNS = {
    Attendance.ANSWERED: ("●", "answered"),
    Attendance.LATE: ("◐", "answered late (to an older version)"),
    Attendance.HELLO: ("◆", "first message"),
    Attendance.TROUBLE: ("×", "rejected or no answer"),
    Attendance.ASKED: ("○", "asked, no answer at that time"),
    Attendance.GONE: ("–", "gone"),
}
#: A message of the site was absorbed.
MESSAGES = (Attendance.ANSWERED, Attendance.LATE, Attendance.HELLO)


def participation(run: RunFolder, step: str) -> Html | None:
    """Return the table of who took part when."""
    history = run.history
    if not history.marks:
        return None
    table = attendance(history)
    width = math.ceil(history.n_rounds / COLUMNS)
    bins = [
        range(first, min(first + width, history.n_rounds))
        for first in range(0, history.n_rounds, width)
    ]
    order = _order(history)
    shown, others = order[:ROWS], order[ROWS:]
    head = [tag("th", "site", scope="col")]
    head += [tag("th", _column(rounds), scope="col") for rounds in bins]
    rows = [
        _row(history.sites[client].name, table[client], bins, step) for client in shown
    ]
    if others:
        rows.append(_others([table[client] for client in others], bins, step))
    legend = [
        tag("span", tag("b", glyph, class_=_class(what)), f" {meaning}")
        for what, (glyph, meaning) in SIGNS.items()
    ]
    label = f"Participation by site and {step}"
    return join(
        tag("h3", "Who took part when"),
        tag("p", _explanation(len(others), width, step)),
        tag("p", legend, class_="legend"),
        scroll_table(head, rows, label, class_="participation"),
    )


def _explanation(others: int, width: int, step: str) -> str:
    text = f"A row is a site, a column a {step}; {step} 0 is the start."
    if width > 1:
        text += (
            f" A column stands for {width} {step}s and shows the weightiest of them."
        )
    if others:
        text += (
            f" The {ROWS} sites with most trouble, then most rows, have a row of their "
            f"own; the last row counts the messages of the {others} others."
        )
    return text


def _order(history: RunHistory) -> list[int]:
    clients = list(history.sites)
    if len(clients) <= ROWS:
        return clients

    def weight(client: int) -> tuple[int, int]:
        site = history.sites[client]
        return -(len(site.rejected) + len(site.failures) + site.late), -site.rows

    return sorted(clients, key=weight)


def _class(what: Attendance) -> str:
    """Return the class that gives a sign its colour in the style sheet."""
    return f"p-{what.name.lower()}"


def _column(rounds: range) -> str:
    return str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]}–{rounds[-1]}"


def _row(name: str, states: Ints, bins: list[range], step: str) -> Html:
    cells = []
    for rounds in bins:
        seen = [Attendance(state) for state in states[rounds[0] : rounds[-1] + 1]]
        what = max(seen)
        if what == Attendance.NOT_ASKED:
            cells.append(tag("td"))
            continue
        glyph, meaning = SIGNS[what]
        tip = f"{name}, {step} {_column(rounds)}: {meaning}"
        if len(rounds) > 1:
            messages = sum(state in MESSAGES for state in seen)
            tip += f" ({count(messages, 'message')})"
        cells.append(tag("td", glyph, class_=f"mark {_class(what)}", data_tip=tip))
    return tag("tr", tag("th", name, scope="row"), cells)


def _others(table: list[Ints], bins: list[range], step: str) -> Html:
    """Return the row that counts the messages of the sites without their own."""
    cells = []
    for rounds in bins:
        messages = sum(
            state in MESSAGES
            for states in table
            for state in states[rounds[0] : rounds[-1] + 1]
        )
        if not messages:
            cells.append(tag("td"))
            continue
        tip = (
            f"{len(table)} other sites, {step} {_column(rounds)}: "
            f"{count(messages, 'message')}"
        )
        cells.append(tag("td", messages, class_="mark p-count", data_tip=tip))
    return tag("tr", tag("th", f"{len(table)} others", scope="row"), cells)
