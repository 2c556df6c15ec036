# SPDX-License-Identifier: Apache-2.0
"""The clusters: what makes each one, how big it is, and where it lives."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.report.facts import MEMBER, Facts, SiteFact
from afcl.report.markup import Html, count, data_island, join, number, tag
from afcl.report.svg import (
    COLOURS,
    WIDTH,
    Scale,
    colour,
    figure,
    hatch,
    mark,
    marks,
    numbers,
    swatch,
)

#: Sites with a bar of their own; the others share one.
SITES = 30
#: Sites and clusters in a table of numbers.
LISTED = 400
BAR = 22.0


def clusters_section(facts: Facts) -> Html:
    """Return the section on the clusters."""
    inside: list[object] = [tag("h2", "The clusters", id="clusters")]
    if not facts.done:
        inside.append(
            tag("p", "Clusters are told when the run is done.", class_="note")
        )
        return tag("section", inside, aria_labelledby="clusters")
    inside.append(_profile(facts))
    cards = []
    if facts.sizes:
        cards.append(tag("div", _sizes(facts), class_="card"))
    shares = _shares(facts)
    if shares is not None:
        cards.append(tag("div", shares, class_="card"))
    inside.append(tag("div", cards, class_="pair"))
    if not _known(facts):
        inside.append(
            tag(
                "p",
                "Which cluster lives at which site is not known here: labels stay with "
                "the sites, and each site's own page shows its own.",
                class_="note",
            )
        )
    inside.append(_behind(facts))
    return tag("section", inside, aria_labelledby="clusters")


def _known(facts: Facts) -> list[SiteFact]:
    """Return the sites whose rows per cluster are known."""
    return [site for site in facts.sites if site.sizes is not None]


# ------------------------------------------------------------------ profile


def deviations(facts: Facts) -> tuple[Floats, Floats]:
    """Return the overall mean and every centre's deviation, in shares of the range."""
    assert facts.centers is not None
    weights = np.array(facts.sizes, dtype=float)
    if weights.shape[0] != facts.centers.shape[0] or not weights.sum() > 0:
        weights = np.ones(facts.centers.shape[0])
    middle = weights @ facts.centers / weights.sum()
    span = facts.span
    if span is None or span.shape != middle.shape:
        span = np.ptp(facts.centers, axis=0)
    safe = np.where(span > 0, span, 1.0)
    return middle, (facts.centers - middle) / safe


def _profile(facts: Facts) -> Html:
    if facts.centers is None:
        text = "This method has no centres, so there is no profile to show."
        return tag("p", text, class_="note")
    middle, away = deviations(facts)
    most = float(np.abs(away).max())
    most = most if most > 1e-9 else 1.0
    order = np.argsort(-away.std(axis=0), kind="stable")
    k = facts.centers.shape[0]
    head = [tag("th", "column", scope="col"), tag("th", "all", scope="col")]
    head += [tag("th", swatch(c), scope="col") for c in range(k)]
    rows = []
    for j in order.tolist():
        cells = [
            _cell(facts, c, j, float(middle[j]), float(away[c, j]), most)
            for c in range(k)
        ]
        name = tag("th", facts.columns[j], scope="row")
        rows.append(tag("tr", name, tag("td", number(float(middle[j]))), cells))
    text = (
        "Centres in the units of the data, beside the mean of all rows. The deeper the "
        "colour, the further a centre lies above (▲, orange) or below (▼, blue) that "
        "mean, measured against the column's range. Columns that part the clusters "
        "most come first."
    )
    return join(
        tag("p", text),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", head)),
                tag("tbody", rows, data_marks=True),
                class_="profile",
            ),
            class_="scroll tall" if len(order) > 16 else "scroll",
            tabindex=0,
            role="region",
            aria_label="Centres of the clusters",
        ),
    )


def _cell(
    facts: Facts, cluster: int, j: int, middle: float, away: float, most: float
) -> Html:
    assert facts.centers is not None
    value = float(facts.centers[cluster, j])
    side = "above" if away > 0 else "below"
    depth = min(4, round(4 * abs(away) / most))
    sign = "" if depth == 0 else ("▲" if away > 0 else "▼")
    tip = (
        f"Cluster {cluster}, {facts.columns[j]}: {number(value, 4)}, "
        f"{number(abs(value - middle))} {side} the mean of all rows "
        f"({abs(away):.0%} of the range)"
    )
    return tag(
        "td",
        tag("span", sign, class_="sign", aria_hidden="true"),
        number(value),
        class_=f"mark {'up' if away > 0 else 'down'}{depth}",
        data_tip=tip,
    )


# ------------------------------------------------------------------ sizes


def _sizes(facts: Facts) -> Html:
    """Draw a bar for every cluster; the page's script can show one site's rows."""
    sizes, total = facts.sizes, sum(facts.sizes) or 1
    height = 14 + BAR * len(sizes)
    x = Scale(0, max(sizes) or 1, 40.0, WIDTH - 92)
    bars = []
    for c, size in enumerate(sizes):
        top = 8 + BAR * c
        over = hatch(c)
        tip = f"Cluster {c}: {count(size, 'row')}, {size / total:.1%}"
        bars.append(
            mark(
                "rect",
                tip,
                f"bar fill {colour(c)}",
                x=x.start,
                y=top,
                width=max(1.0, x(size) - x.start),
                height=BAR - 5,
                data_cluster=c,
            )
        )
        if over is not None:
            bars.append(
                tag(
                    "rect",
                    x=x.start,
                    y=top,
                    width=max(1.0, x(size) - x.start),
                    height=BAR - 5,
                    fill=over,
                    class_="bar-hatch",
                    data_over=c,
                )
            )
        bars.append(tag("text", c, x=32.0, y=top + 13, class_="tick end"))
        bars.append(
            tag(
                "text",
                f"{size:,} ({size / total:.0%})",
                x=x(size) + 6,
                y=top + 13,
                class_="tick bar-text",
                data_cluster=c,
            )
        )
    drawing = figure(
        "Rows in every cluster",
        "; ".join(f"cluster {c}: {size:,}" for c, size in enumerate(sizes[:40])),
        marks(bars, label="clusters by size"),
        height=height,
        class_="sizes",
    )
    return join(tag("h3", "Sizes"), _switch(facts, x), drawing)


def _switch(facts: Facts, x: Scale) -> Html | None:
    """Return the choice of a site, and the numbers behind it."""
    known = _known(facts)
    if not known:
        return None
    everybody = "all sites"
    options = [tag("option", everybody, value="")]
    options += [tag("option", site.name, value=i) for i, site in enumerate(known)]
    rows = {"all": list(facts.sizes), "sites": [list(s.sizes or ()) for s in known]}
    return join(
        tag(
            "label",
            "Rows of ",
            tag("select", options, id="site"),
            class_="switch screen",
        ),
        data_island("sizes", {**rows, "start": x.start, "stop": x.stop}),
    )


# ------------------------------------------------------------------ shares


def _shares(facts: Facts) -> Html | None:
    """Draw how every site's rows fall into the clusters."""
    known = _known(facts)
    if not known or (facts.kind != MEMBER and len(known) < 2):
        return None
    shown = sorted(known, key=lambda site: -site.rows)
    rows = [(site.name, list(site.sizes or ())) for site in shown[:SITES]]
    rest = shown[SITES:]
    if rest:
        together = np.array([site.sizes for site in rest]).sum(axis=0)
        rows.append((f"{len(rest)} others", together.tolist()))
    x = Scale(0.0, 1.0, 120.0, WIDTH - 8)
    bars = [
        _stack(name, sizes, 8 + BAR * row, x) for row, (name, sizes) in enumerate(rows)
    ]
    note = None
    if rest:
        note = tag(
            "p",
            f"The {SITES} largest sites have a bar of their own; the other "
            f"{count(len(rest), 'site')} share the last one.",
            class_="note",
        )
    drawing = figure(
        "Which cluster lives where",
        "Every site's rows by cluster, as shares of the site.",
        marks(bars, label="sites and their clusters"),
        height=14 + BAR * len(rows),
        class_="shares",
    )
    title = (
        "Where its rows fall" if facts.kind == MEMBER else "Which cluster lives where"
    )
    return join(tag("h3", title), drawing, note)


def _stack(name: str, sizes: list[int], top: float, x: Scale) -> Html:
    total = sum(sizes) or 1
    short = name if len(name) <= 17 else name[:16] + "…"
    parts: list[object] = [
        tag("text", short, tag("title", name), x=112.0, y=top + 13, class_="tick end")
    ]
    done = 0
    for c, size in enumerate(sizes):
        if size == 0:
            continue
        left, width = x(done / total), x(size / total) - x(0.0)
        done += size
        box = {"x": left, "y": top, "width": width, "height": BAR - 5}
        tip = f"{name}: {count(size, 'row')} in cluster {c}, {size / total:.0%}"
        parts.append(mark("rect", tip, f"bar fill {colour(c)}", **box))
        over = hatch(c)
        if over is not None:
            parts.append(tag("rect", fill=over, class_="bar-hatch", **box))
        if width > 7 + 8 * len(str(c)):
            parts.append(
                tag(
                    "text",
                    c,
                    x=left + width / 2,
                    y=top + 13,
                    class_=f"on middle t{c % COLOURS}",
                )
            )
    return join(parts)


def _behind(facts: Facts) -> Html:
    """Return the tables behind the pictures."""
    known = _known(facts)
    parts: list[object] = []
    if facts.centers is not None:
        k = facts.centers.shape[0]
        header = ["column", *(f"cluster {c}" for c in range(k))]
        centers = facts.centers
        parts.append(
            numbers(
                header,
                [
                    [name, *(number(float(centers[c, j]), 5) for c in range(k))]
                    for j, name in enumerate(facts.columns)
                ],
                "The centres",
            )
        )
    if known:
        header = ["site", "rows", *(f"cluster {c}" for c in range(len(facts.sizes)))]
        parts.append(
            numbers(
                header,
                [
                    [site.name, f"{site.rows:,}", *(f"{n:,}" for n in site.sizes or ())]
                    for site in known[:LISTED]
                ],
                "Rows of every site in every cluster",
            )
        )
    return join(parts)
