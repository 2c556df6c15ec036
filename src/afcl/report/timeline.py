# SPDX-License-Identifier: Apache-2.0
"""How the run went: objective, k, bytes, who answered when, who was late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from afcl.report.line_chart import LineChart
from afcl.report.markup import (
    Html,
    cards,
    count,
    join,
    note,
    number,
    section,
    shortened,
    size_of,
    tag,
)
from afcl.report.participation import participation
from afcl.report.run_folder import COORDINATOR, MEMBER, RunFolder
from afcl.report.svg import WIDTH, Scale, figure, mark, marks, text
from afcl.report.tables import folded_table
from afcl.report.words import index_name, tidy
from afcl.trace import SiteHistory

#: Width of a curve, three of which stand side by side.
CURVE_WIDTH = 340.0
#: Its height.
CURVE_HEIGHT = 190.0
#: Sites with a bar of their own.
SENDERS = 20
#: Height of a bar and the gap below it.
BAR = 20.0
#: Characters of a site's name beside its bar.
NAME = 18
#: Versions behind that have a bar of their own; older ones share one.
VERSIONS = 9
#: Incidents that are listed at once.
INCIDENTS = 12
#: How many more can be unfolded.
FOLDED = 400


def timeline_section(run: RunFolder) -> Html:
    """Return the section on how the run went."""
    history = run.history
    if not history.sites and not history.steps:
        return section("run", "The run", note(_no_trace(run)))
    # A coordinator's rounds are its own steps: no schedule has drawn them.
    step = "step" if run.kind == COORDINATOR else "round"
    return section(
        "run",
        "The run",
        cards("small-multiples", *_curves(run, step)),
        participation(run, step),
        cards("pair", _staleness(run), _senders(run)),
        _incidents(run),
        _numbers(run, step),
    )


def _no_trace(run: RunFolder) -> str:
    if run.kind == MEMBER:
        return "The course of the run is recorded at the coordinator, not at a site."
    if run.done:
        return (
            "There is no trace in this folder, so the course of the run is not known."
        )
    return "Nothing has happened yet."


# ------------------------------------------------------------------ curves


def _curve(
    title: str,
    points: Sequence[tuple[int, float]],
    step: str,
    unit: str,
    stairs: bool = False,
    write: Callable[[float], str] | None = None,
) -> Html | None:
    """Draw one figure of the run against its rounds."""
    if not points:
        return None
    chart = LineChart(points, CURVE_WIDTH, CURVE_HEIGHT, stairs=stairs)
    in_words = number if write is None else write
    tips = [f"{step} {at}: {unit} {in_words(value)}" for at, value in points]
    change = f"from {in_words(points[0][1])} to {in_words(points[-1][1])}"
    return chart.figure(
        title,
        f"{title} against the {step}, {change}.",
        chart.axes(step, title, write_y=write),
        chart.curve(),
        chart.dots(tips, label=title),
        class_="timeline",
    )


def _curves(run: RunFolder, step: str) -> list[Html | None]:
    """Draw the objective, k, and what the sites have sent."""
    history = run.history
    made = [(history.round_of(one.tick), one) for one in history.steps]
    objective = [(at, one.objective) for at, one in made if one.objective is not None]
    sent = enumerate(accumulate(history.uploaded())) if history.bytes_up else ()
    name, so_far = objective_name(run), "Sent by the sites so far"
    return [
        _curve(name, objective, step, name),
        _curve("k so far", [(at, one.k) for at, one in made], step, "k =", stairs=True),
        _curve(so_far, list(sent), step, "sent", write=size_of),
    ]


def objective_name(run: RunFolder) -> str:
    """Return what a method's objective is called."""
    if run.method == "afcl":
        return index_name("silhouette")
    if run.method in ("afcl-paper", "afcl-matlab"):
        return "Objective Z"
    return "The method's objective"


# ------------------------------------------------------------------ bars


def _bars(
    title: str, description: str, rows: Sequence[tuple[str, float, str, str]]
) -> Html:
    """Draw named bars: name, length, what stands beside it, its tip."""
    x = Scale(0, max(length for _, length, _, _ in rows) or 1, 128.0, WIDTH - 78)
    parts: list[object] = []
    for i, (name, length, beside, tip) in enumerate(rows):
        top = 8 + BAR * i
        parts.append(text(shortened(name, NAME), 120.0, top + 12, "tick end"))
        long = max(1.0, x(length) - x.start)
        box = {"x": x.start, "y": top, "width": long, "height": BAR - 5}
        parts.append(mark("rect", tip, "bar plain-bar", **box))
        parts.append(text(beside, x(length) + 6, top + 12, "tick"))
    height = 14 + BAR * len(rows)
    drawing = figure(title, description, marks(parts, label=title), height=height)
    return join(tag("h3", title), drawing)


def _staleness(run: RunFolder) -> Html | None:
    found = run.history.staleness
    if not found:
        return None
    total = sum(found.values())
    if set(found) == {0}:
        calm = f"All {count(total, 'answer')} fitted the server's newest version."
        return join(tag("h3", "Staleness"), tag("p", calm))
    shown = range(min(max(found), VERSIONS) + 1)
    rows: list[tuple[str, float, str, str]] = [
        (
            "up to date" if behind == 0 else f"{behind} behind",
            found[behind],
            f"{found[behind]:,}",
            f"{count(found[behind], 'answer')} {behind} versions behind",
        )
        for behind in shown
    ]
    more = sum(n for behind, n in found.items() if behind > VERSIONS)
    if more:
        rows.append(
            (f"{VERSIONS + 1} or more", more, f"{more:,}", count(more, "answer"))
        )
    late = f"Of {total:,} answers {total - found[0]:,} were to an older version."
    return _bars("Staleness", late, rows)


def _senders(run: RunFolder) -> Html | None:
    sites = [site for site in run.sites if site.messages]
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
    others, rest = None, order[SENDERS:]
    if rest:
        together = sum(site.bytes for site in rest)
        others = note(
            f"The other {count(len(rest), 'site')} sent {size_of(together)} together, "
            f"{size_of(together / len(rest))} each on average."
        )
    total = f"{count(len(sites), 'site')} sent {size_of(sum(s.bytes for s in sites))}."
    title = f"The {SENDERS} sites that sent most" if rest else "Sent by every site"
    return join(_bars(title, total, rows), others)


# ------------------------------------------------------------------ who was late


def _incidents(run: RunFolder) -> Html:
    """List who was late, rejected, silent, refused or gone."""
    history = run.history
    lines = [
        line
        for site in history.sites.values()
        for line in _incidents_of(site, run.done)
    ]
    lines += [f"{n} was refused: {tidy(why)}" for n, why in history.refused.items()]
    lines += [f"Note: {tidy(words)}" for words in history.notes]
    if history.resumed:
        lines.append(f"The server was started again {count(history.resumed, 'time')}")
    title = tag("h3", "Late, rejected, gone, noted")
    if not lines:
        calm = "Nobody was late, no message was rejected, nobody left."
        return join(title, tag("p", calm))
    items = [tag("li", line) for line in lines[:INCIDENTS]]
    more = lines[INCIDENTS:]
    folded = None
    if more:
        folded = tag(
            "details",
            tag("summary", f"{len(more):,} more"),
            tag("ul", [tag("li", line) for line in more[:FOLDED]]),
        )
    return join(title, tag("ul", items, class_="incidents"), folded)


def _incidents_of(site: SiteHistory, is_done: bool) -> list[str]:
    """Return what happened at one site, a line each."""
    lines = []
    if site.rejected:
        lines.append(
            f"{site.name}: {count(len(site.rejected), 'message')} rejected "
            f"({tidy(site.rejected[-1])})"
        )
    if site.failures:
        lines.append(
            f"{site.name}: no answer {count(len(site.failures), 'time')} "
            f"({tidy(site.failures[-1])})"
        )
    if site.late:
        lines.append(
            f"{site.name}: {count(site.late, 'late answer')}, at worst "
            f"{count(site.worst, 'version')} behind"
        )
    if site.gone:
        lines.append(f"{site.name} left; what it said stays")
    if is_done and not site.messages:
        lines.append(f"{site.name} never sent anything")
    return lines


def _numbers(run: RunFolder, step: str) -> Html:
    """Return the tables behind the pictures."""
    history = run.history
    rounds = folded_table(
        [step, "k", objective_name(run)],
        [
            [history.round_of(made.tick), made.k, number(made.objective, 5)]
            for made in history.steps
        ],
        f"Every {step}",
    )
    sites = folded_table(
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
            for site in history.sites.values()
        ],
        "Every site",
    )
    return join(rounds, sites)
