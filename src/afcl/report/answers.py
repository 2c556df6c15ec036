# SPDX-License-Identifier: Apache-2.0
"""The answers of a federation that goes on: what became of which cluster."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from afcl.report.markup import Html, cards, count, note, section, tag
from afcl.report.past_answers import AnswerSummary
from afcl.report.run_folder import RunFolder
from afcl.report.svg import COLOURS, cluster_bar, colour, figure, text
from afcl.report.tables import folded_table

#: Answers that are drawn; older ones are in the table.
SHOWN = 12
WIDTH = 640.0
HEIGHT = 240.0
#: Room above for the numbers,
TOP = 26.0
#: and on either side.
SIDE = 16.0
#: Share of a column's room that its bar takes.
BAR = 0.45
#: Lowest bar that holds a name.
NAMED = 15.0


@dataclass(frozen=True)
class _Bar:
    """A cluster of an answer on the drawing."""

    name: str
    share: float
    cluster: int
    x: float
    y: float
    width: float
    height: float


def answers_section(run: RunFolder) -> Html | None:
    """Return all answers so far, None if there was only one."""
    if len(run.answers) < 2:
        return None
    explanation = (
        "A column is an answer, a colour a cluster: it keeps its name from answer to "
        "answer, and its height is its share of the rows. "
        f"{_called(run.answers[-1].names)}"
    )
    return section(
        "answers",
        "Answers so far",
        tag("p", explanation),
        cards("wide", _drawing(run.answers[-SHOWN:])),
        note(_left_out(len(run.answers))) if len(run.answers) > SHOWN else None,
        _changes(run.answers[-1]),
        _table(run.answers),
    )


def _called(names: tuple[str, ...]) -> str:
    """Say which cluster of this page has which name, and so which colour."""
    pairs = [f"{name} is cluster {label}" for label, name in enumerate(names)]
    return f"Elsewhere on this page {', '.join(pairs)}."


def _colours(answers: tuple[AnswerSummary, ...]) -> dict[str, int]:
    """Return a number for every name: its cluster's now, and further ones for others.

    So that colours mean the same as on the rest of the page.
    """
    numbers = {name: label for label, name in enumerate(answers[-1].names)}
    others = {name for answer in answers for name in answer.names} - numbers.keys()
    for name in sorted(others, key=_place):
        numbers[name] = len(numbers)
    return numbers


def _place(name: str) -> int:
    return int(name[1:])


def _left_out(answers: int) -> str:
    return f"The last {SHOWN} of {answers} answers are drawn; the table has all."


def _drawing(answers: tuple[AnswerSummary, ...]) -> Html:
    room = (WIDTH - 2 * SIDE) / len(answers)
    numbers = _colours(answers)
    columns = [_column(each, i, room, numbers) for i, each in enumerate(answers)]
    parts: list[object] = []
    for before, after in pairwise(columns):
        parts += _ribbons(before, after)
    for i, (answer, bars) in enumerate(zip(answers, columns, strict=True)):
        middle = SIDE + (i + 0.5) * room
        title = str(answer.number) + (" (withdrawn)" if answer.withdrawn else "")
        parts.append(text(title, middle, TOP - 10, "tick middle"))
        for bar in bars:
            parts += _drawn(bar, answer.number)
    ks = ", ".join(str(len(answer.names)) for answer in answers)
    return figure(
        "Answers so far",
        f"Clusters in answers {answers[0].number} to {answers[-1].number}: {ks}.",
        *parts,
        height=HEIGHT,
        width=WIDTH,
        class_="answers",
    )


def _column(
    answer: AnswerSummary, place: int, room: float, numbers: dict[str, int]
) -> list[_Bar]:
    """Return the bars of an answer, its clusters in the order of their names."""
    total = sum(answer.sizes)
    if not total:
        return []
    x, y, bars = SIDE + (place + 0.5 - BAR / 2) * room, TOP, []
    sizes = zip(answer.names, answer.sizes, strict=True)
    for name, size in sorted(sizes, key=lambda pair: _place(pair[0])):
        height, share = (HEIGHT - TOP - 4) * size / total, size / total
        bars.append(_Bar(name, share, numbers[name], x, y, BAR * room, height))
        y += height
    return bars


def _drawn(bar: _Bar, number: int) -> list[Html]:
    tip = f"{bar.name} in answer {number}: {bar.share:.0%} of the rows"
    box = {"x": bar.x, "y": bar.y, "width": bar.width, "height": bar.height}
    drawn = cluster_bar(bar.cluster, tip, box)
    if bar.height >= NAMED:
        x, y = bar.x + bar.width / 2, bar.y + bar.height / 2 + 4
        drawn.append(text(bar.name, x, y, f"on middle t{bar.cluster % COLOURS}"))
    return drawn


def _ribbons(before: list[_Bar], after: list[_Bar]) -> list[Html]:
    """Return what connects a cluster with itself in the next answer."""
    later = {bar.name: bar for bar in after}
    ribbons = []
    for bar in before:
        other = later.get(bar.name)
        if other is None:
            continue
        right = bar.x + bar.width
        outline = (
            f"M{right:.1f} {bar.y:.1f}L{other.x:.1f} {other.y:.1f}"
            f"V{other.y + other.height:.1f}L{right:.1f} {bar.y + bar.height:.1f}Z"
        )
        class_ = f"ribbon fill {colour(bar.cluster)}"
        ribbons.append(tag("path", d=outline, class_=class_))
    return ribbons


def _changes(answer: AnswerSummary) -> Html:
    """Return what is not as it was, in words."""
    if not answer.changes:
        return tag("p", f"Answer {answer.number}: all clusters are as they were.")
    lines = [tag("li", text) for text in answer.changes]
    return tag("div", tag("p", f"New in answer {answer.number}:"), tag("ul", lines))


def _table(answers: tuple[AnswerSummary, ...]) -> Html:
    header = ("Answer", "Clusters", "Sites", "Rows", "What changed")
    rows = [
        (
            answer.number,
            len(answer.names),
            answer.sites,
            "withdrawn" if answer.withdrawn else f"{sum(answer.sizes):,}",
            "; ".join(answer.changes),
        )
        for answer in answers
    ]
    return folded_table(header, rows, f"All {count(len(answers), 'answer')}")
