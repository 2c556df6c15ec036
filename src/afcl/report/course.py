# SPDX-License-Identifier: Apache-2.0
"""The course of the run: objective, k, bytes, who answered when, who was late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from afcl.report.facts import COORDINATOR, MEMBER, Facts
from afcl.report.markup import Html, count, join, number, size_of, tag
from afcl.report.participation import participation
from afcl.report.svg import (
    WIDTH,
    Scale,
    axes,
    figure,
    line,
    mark,
    marks,
    numbers,
    padded,
    ticks,
    whole_ticks,
)
from afcl.report.words import index_name, tidy

#: Size of a curve.
WIDE, HIGH = 340.0, 190.0
#: Sites with a bar of their own, and events told one by one.
SENDERS, TOLD = 20, 12
BAR = 20.0


def course_section(facts: Facts) -> Html:
    """Return the section on how the run went."""
    inside: list[object] = [tag("h2", "The run", id="run")]
    course = facts.course
    if not course.sites and not course.rounds:
        inside.append(tag("p", _no_trace(facts), class_="note"))
        return tag("section", inside, aria_labelledby="run")
    step = "step" if facts.kind == COORDINATOR else "round"
    curves = [_objective(facts, step), _k(facts, step), _bytes(facts, step)]
    cards = [tag("div", curve, class_="card") for curve in curves if curve is not None]
    inside.append(tag("div", cards, class_="small-multiples"))
    inside.append(participation(facts, step))
    pair = [_staleness(facts), _senders(facts)]
    cards = [tag("div", part, class_="card") for part in pair if part is not None]
    inside.append(tag("div", cards, class_="pair"))
    inside.append(_incidents(facts))
    inside.append(_behind(facts, step))
    return tag("section", inside, aria_labelledby="run")


def _no_trace(facts: Facts) -> str:
    if facts.kind == MEMBER:
        return "The course of the run is recorded at the coordinator, not at a site."
    if facts.done:
        return (
            "There is no trace in this folder, so the course of the run is not known."
        )
    return "Nothing has happened yet."


# ------------------------------------------------------------------ curves


def _curve(
    title: str,
    points: Sequence[tuple[float, float]],
    step: str,
    unit: str,
    stairs: bool = False,
    write: Callable[[float], str] | None = None,
) -> Html:
    """Draw one figure of the run against its rounds."""
    xs, ys = [a for a, _ in points], [b for _, b in points]
    low, high = padded(ys, 0.12)
    x = Scale(min(xs), max(xs), 60.0, WIDE - 16)
    y = Scale(low, high, HIGH - 42, 28.0)
    at = [(x(a), y(b)) for a, b in points]
    drawn = at
    if stairs:
        drawn = at[:1]
        for before, after in zip(at, at[1:], strict=False):
            drawn += [(after[0], before[1]), after]
    tell = number if write is None else write
    y_ticks = [v for v in ticks(low, high, 4) if v >= 0 or min(ys) < 0]
    if stairs:
        y_ticks = [v for v in y_ticks if v == int(v)]
    dots = [
        mark("circle", f"{step} {a:g}: {unit} {tell(b)}", "dot", cx=p, cy=q, r=3.0)
        for (a, b), (p, q) in zip(points, at, strict=True)
    ]
    last = f"from {tell(ys[0])} to {tell(ys[-1])}"
    return figure(
        title,
        f"{title} against the {step}, {last}.",
        axes(
            x,
            y,
            whole_ticks(int(min(xs)), int(max(xs)), 6),
            y_ticks,
            step,
            title,
            write_y=write,
        ),
        line(drawn, "curve"),
        marks(dots, label=title),
        height=HIGH,
        width=WIDE,
        class_="course",
    )


def _objective(facts: Facts, step: str) -> Html | None:
    points = [
        (float(_when(r, step)), r.objective)
        for r in facts.course.rounds
        if r.objective is not None
    ]
    if not points:
        return None
    name = objective_name(facts)
    return _curve(name, points, step, name)


def objective_name(facts: Facts) -> str:
    """Return what a method's objective is called."""
    if facts.method == "afcl":
        return index_name("silhouette")
    if facts.method in ("afcl-paper", "afcl-matlab"):
        return "Objective Z"
    return "The method's objective"


def _when(round_: object, step: str) -> int:
    name = "tick" if step == "step" else "round"
    return int(getattr(round_, name))


def _k(facts: Facts, step: str) -> Html | None:
    points = [(float(_when(r, step)), float(r.k)) for r in facts.course.rounds]
    if not points:
        return None
    return _curve("k so far", points, step, "k =", stairs=True)


def _bytes(facts: Facts, step: str) -> Html | None:
    course = facts.course
    if not course.bytes_up:
        return None
    steps = range(course.ticks)
    total = accumulate(course.bytes_up[tick] for tick in steps)
    points = [(float(t), float(n)) for t, n in zip(steps, total, strict=True)]
    return _curve("Sent by the sites so far", points, step, "sent", write=size_of)


# ------------------------------------------------------------------ bars


def _bars(title: str, said: str, rows: Sequence[tuple[str, float, str, str]]) -> Html:
    """Draw named bars: name, length, what stands beside it, what it tells."""
    x = Scale(0, max(length for _, length, _, _ in rows) or 1, 128.0, WIDTH - 78)
    parts: list[object] = []
    for i, (name, length, beside, tip) in enumerate(rows):
        top = 8 + BAR * i
        short = name if len(name) <= 18 else name[:17] + "…"
        parts.append(tag("text", short, x=120.0, y=top + 12, class_="tick end"))
        parts.append(
            mark(
                "rect",
                tip,
                "bar plain-bar",
                x=x.start,
                y=top,
                width=max(1.0, x(length) - x.start),
                height=BAR - 5,
            )
        )
        parts.append(tag("text", beside, x=x(length) + 6, y=top + 12, class_="tick"))
    return join(
        tag("h3", title),
        figure(title, said, marks(parts, label=title), height=14 + BAR * len(rows)),
    )


def _staleness(facts: Facts) -> Html | None:
    found = facts.course.staleness
    if not found:
        return None
    total = sum(found.values())
    if set(found) == {0}:
        return join(
            tag("h3", "Staleness"),
            tag(
                "p", f"All {count(total, 'answer')} fitted the server's newest version."
            ),
        )
    worst = max(found)
    shown = [(b, found[b]) for b in range(min(worst, 9) + 1)]
    rows = [
        (
            "up to date" if b == 0 else f"{b} behind",
            n,
            f"{n:,}",
            f"{count(n, 'answer')} {b} versions behind",
        )
        for b, n in shown
    ]
    more = sum(n for b, n in found.items() if b > 9)
    if more:
        rows.append(("10 or more", more, f"{more:,}", f"{count(more, 'answer')}"))
    said = f"Of {total:,} answers {total - found[0]:,} were to an older version."
    return _bars("Staleness", said, rows)


def _senders(facts: Facts) -> Html | None:
    sites = [site for site in facts.sites if site.messages]
    if not sites:
        return None
    order = sorted(sites, key=lambda site: -site.bytes)
    rows = [
        (
            site.name,
            float(site.bytes),
            size_of(site.bytes),
            f"{site.name}: {count(site.messages, 'message')}, {site.bytes:,} bytes, "
            f"{count(site.rows, 'row')}",
        )
        for site in order[:SENDERS]
    ]
    note, rest = None, order[SENDERS:]
    if rest:
        together = sum(site.bytes for site in rest)
        note = tag(
            "p",
            f"The other {count(len(rest), 'site')} sent {size_of(together)} together, "
            f"{size_of(together / len(rest))} each on average.",
            class_="note",
        )
    said = f"{count(len(sites), 'site')} sent {size_of(sum(s.bytes for s in sites))}."
    title = f"The {SENDERS} sites that sent most" if rest else "Sent by every site"
    return join(_bars(title, said, rows), note)


# ------------------------------------------------------------------ who was late


def _incidents(facts: Facts) -> Html:
    """Tell who was late, rejected, silent, refused or gone."""
    course = facts.course
    said = []
    for site in course.sites.values():
        if site.rejected:
            said.append(
                f"{site.name}: {count(len(site.rejected), 'message')} rejected "
                f"({tidy(site.rejected[-1])})"
            )
        if site.failures:
            said.append(
                f"{site.name}: no answer {count(len(site.failures), 'time')} "
                f"({tidy(site.failures[-1])})"
            )
        if site.late:
            said.append(
                f"{site.name}: {count(site.late, 'late answer')}, at worst "
                f"{count(site.worst, 'version')} behind"
            )
        if site.gone:
            said.append(f"{site.name} left; what it said stays")
        if facts.done and not site.messages:
            said.append(f"{site.name} never sent anything")
    said += [f"{n} was refused: {tidy(why)}" for n, why in course.refused.items()]
    said += [f"Note: {tidy(text)}" for text in course.notes]
    if course.resumed:
        said.append(f"The server was started again {count(course.resumed, 'time')}")
    title = tag("h3", "Late, rejected, gone, noted")
    if not said:
        text = "Nobody was late, no message was rejected, nobody left."
        return join(title, tag("p", text))
    items = [tag("li", text) for text in said[:TOLD]]
    more = said[TOLD:]
    folded = None
    if more:
        folded = tag(
            "details",
            tag("summary", f"{len(more):,} more"),
            tag("ul", [tag("li", text) for text in more[:400]]),
        )
    return join(title, tag("ul", items, class_="incidents"), folded)


def _behind(facts: Facts, step: str) -> Html:
    course = facts.course
    rounds = numbers(
        [step, "k", objective_name(facts)],
        [[_when(r, step), r.k, number(r.objective, 5)] for r in course.rounds],
        f"Every {step}",
    )
    sites = numbers(
        ["site", "rows", "messages", "bytes", "late", "rejected", "no answer"],
        [
            [
                site.name,
                f"{site.rows:,}",
                site.messages,
                f"{site.bytes:,}",
                site.late,
                len(site.rejected),
                len(site.failures),
            ]
            for site in course.sites.values()
        ],
        "Every site",
    )
    return join(rounds, sites)
