# SPDX-License-Identifier: Apache-2.0
"""The clusters: what makes each one, how big it is, and where it lives."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.reliance import STABLE, percent
from afcl.report.cluster_cards import cards_of
from afcl.report.levels import share
from afcl.report.markup import (
    Html,
    cards,
    count,
    data_island,
    join,
    note,
    number,
    section,
    shortened,
    tag,
)
from afcl.report.profile_facts import written
from afcl.report.run_folder import MEMBER, RunFolder
from afcl.report.site_facts import SiteSummary
from afcl.report.svg import (
    WIDTH,
    Scale,
    cluster_bar,
    cluster_number,
    figure,
    marks,
    swatch,
    text,
)
from afcl.report.tables import folded_table, scroll_table

#: Sites with a bar of their own; the others share one.
SITES = 30
#: Sites and clusters in a table of numbers.
LISTED = 400
#: Height of a bar and the gap below it.
BAR = 22.0
#: Characters of a site's name beside its bar.
NAME = 17
#: Depths of the tint in the profile; the style sheet has as many classes.
DEPTHS = 4


def clusters_section(run: RunFolder) -> Html:
    """Return the section on the clusters."""
    title = "The clusters"
    if not run.done:
        return section("clusters", title, *_so_far(run))
    unknown = (
        "Which cluster lives at which site is not known here: labels stay with the "
        "sites, and each site's own page shows its own."
    )
    return section(
        "clusters",
        title,
        cards_of(run),
        _profile(run),
        cards("pair", _sizes(run) if run.sizes else None, _shares(run)),
        None if _known(run) else note(unknown),
        _numbers(run),
    )


def _so_far(run: RunFolder) -> list[Html]:
    """Return the clusters of a run that goes on, as the server last told them."""
    if not run.sizes:
        return [note("Clusters are told when the server has heard enough.")]
    caption = (
        "So the clusters stand; numbers, sizes and centres may change until the end."
    )
    shown = [note(caption), cards("pair", _sizes(run))]
    return [*shown, _profile(run)] if run.centers is not None else shown


def _known(run: RunFolder) -> list[SiteSummary]:
    """Return the sites whose rows per cluster are known."""
    return [site for site in run.sites if site.sizes is not None]


# ------------------------------------------------------------------ profile


def deviations(run: RunFolder) -> tuple[Floats, Floats]:
    """Return the overall mean and every centre's deviation, in shares of the range."""
    assert run.centers is not None
    weights = np.array(run.sizes, dtype=float)
    if weights.shape[0] != run.centers.shape[0] or not weights.sum() > 0:
        weights = np.ones(run.centers.shape[0])
    middle = weights @ run.centers / weights.sum()
    span = run.span
    if span is None or span.shape != middle.shape:
        span = np.ptp(run.centers, axis=0)
    safe = np.where(span > 0, span, 1.0)
    return middle, (run.centers - middle) / safe


def _profile(run: RunFolder) -> Html:
    if run.centers is None:
        return note("This method has no centres, so there is no profile to show.")
    middle, away = deviations(run)
    most = float(np.abs(away).max())
    most = most if most > 1e-9 else 1.0
    order = np.argsort(-away.std(axis=0), kind="stable")
    k = run.centers.shape[0]
    head = [tag("th", "column", scope="col"), tag("th", "all", scope="col")]
    head += [tag("th", swatch(c), scope="col") for c in range(k)]
    rows = [_stabilities(run)] if run.trust and run.trust.stabilities else []
    rows += [_silhouettes(run)] if run.profiles else []
    rows += [_times(name, where) for name, where in run.times.items()]
    for j in order.tolist():
        cells = [
            _cell(run, c, j, float(middle[j]), float(away[c, j]), most)
            for c in range(k)
        ]
        name = tag("th", run.columns[j], scope="row")
        rows.append(tag("tr", name, tag("td", _value(run, j, float(middle[j]))), cells))
    legend = (
        "Centres in the units of the data, beside the mean of all rows. The deeper the "
        "colour, the further a centre lies above (▲, orange) or below (▼, blue) that "
        "mean, measured against the column's range. Columns that part the clusters "
        "most come first."
    )
    if run.shape is not None:
        legend += (
            " Of a cluster that is not round it is the mean of its rows, and may lie "
            "where it has none."
        )
    if run.categories:
        legend += " Of a category it is the share of rows that have this level."
    if run.times:
        legend += (
            " Of a part of a date that goes round it is the mean time, and how far the "
            "rows agree on it; cos and sin are its place on the circle."
        )
    if run.profiles:
        legend += (
            " Behind ± stands how far its rows spread around it; silhouette: how much "
            "nearer its rows are to each other than to the next cluster (1 at best, "
            "below 0 they are not)."
        )
    if run.trust and run.trust.stabilities:
        legend += (
            " Comes back: how much of a cluster is found again in resamples, on "
            f"average; (!) below {percent(STABLE)}."
        )
    return join(
        tag("p", legend),
        scroll_table(head, rows, "Centres of the clusters", class_="profile"),
    )


def _value(run: RunFolder, j: int, value: float, digits: int = 3) -> str:
    """Return a centre's value as people read it.

    Of ranks that is the nearest level and the mean rank, of a level its share.
    """
    return written(run.columns[j], value, run.categories, run.orders, digits)


def _stabilities(run: RunFolder) -> Html:
    """Return the row that says how much of every cluster comes back."""
    assert run.trust is not None
    weak, cells = run.trust.unstable, []
    for c, part in enumerate(run.trust.stabilities):
        share = percent(part)
        tip = f"Cluster {c}: on average {share} of it comes back in resamples"
        sign = tag("span", "!", class_="sign") if c in weak else None
        class_ = "mark weak" if c in weak else "mark"
        cells.append(tag("td", sign, share, class_=class_, data_tip=tip))
    name = tag("th", "comes back", scope="row")
    return tag("tr", name, tag("td"), cells, class_="stability")


def _times(name: str, where: tuple[str, ...]) -> Html:
    """Return the row that says at which time of a year, week or day clusters are."""
    cells = [tag("td", each, class_="mark") for each in where]
    return tag("tr", tag("th", name, scope="row"), tag("td"), cells)


def _silhouettes(run: RunFolder) -> Html:
    """Return the row that says how well every cluster is parted from the next."""
    cells = []
    for each in run.profiles:
        mean = number(each.silhouette, 2)
        tip = f"Cluster {each.cluster}, silhouette {mean}: {each.separation_words()}"
        cells.append(tag("td", mean, class_="mark", data_tip=tip))
    whole = run.scores.get("silhouette")
    all_rows = tag("td", "" if whole is None else number(whole, 2))
    name = tag("th", "silhouette", scope="row")
    return tag("tr", name, all_rows, cells, class_="stability")


def _cell(
    run: RunFolder, cluster: int, j: int, middle: float, away: float, most: float
) -> Html:
    assert run.centers is not None
    value = float(run.centers[cluster, j])
    side = "above" if away > 0 else "below"
    depth = min(DEPTHS, round(DEPTHS * abs(away) / most))
    sign = "" if depth == 0 else ("▲" if away > 0 else "▼")
    spread = run.profiles[cluster].spread(j) if run.profiles else ""
    tip = f"Cluster {cluster}, {run.columns[j]}: "
    if run.columns[j] in run.categories:
        tip += f"{share(value)} of its rows, {share(middle)} of all rows"
    else:
        tip += (
            f"{_value(run, j, value, 4)}, "
            f"{number(abs(value - middle))} {side} the mean of all rows "
            f"({abs(away):.0%} of the range)"
        )
        tip += f", spread {spread}" if spread else ""
    return tag(
        "td",
        tag("span", sign, class_="sign", aria_hidden="true"),
        _value(run, j, value),
        tag("span", f" ± {spread}", class_="spread") if spread else None,
        class_=f"mark {'up' if away > 0 else 'down'}{depth}",
        data_tip=tip,
    )


# ------------------------------------------------------------------ sizes


def _sizes(run: RunFolder) -> Html:
    """Draw a bar for every cluster; the page's script can show one site's rows."""
    sizes, total = run.sizes, sum(run.sizes) or 1
    height = 14 + BAR * len(sizes)
    x = Scale(0, max(sizes) or 1, 40.0, WIDTH - 92)
    bars: list[object] = []
    for c, size in enumerate(sizes):
        top = 8 + BAR * c
        long = max(1.0, x(size) - x.start)
        box = {"x": x.start, "y": top, "width": long, "height": BAR - 5}
        tip = f"Cluster {c}: {count(size, 'row')}, {size / total:.1%}"
        bars += cluster_bar(c, tip, box, data_cluster=c)
        bars.append(text(c, 32.0, top + 13, "tick end"))
        beside = f"{size:,} ({size / total:.0%})"
        place = x(size) + 6, top + 13
        bars.append(text(beside, *place, "tick bar-text", data_cluster=c))
    drawing = figure(
        "Rows in every cluster",
        "; ".join(f"cluster {c}: {size:,}" for c, size in enumerate(sizes[:40])),
        marks(bars, label="clusters by size"),
        height=height,
        class_="sizes",
    )
    return join(tag("h3", "Sizes"), _switch(run, x), drawing)


def _switch(run: RunFolder, x: Scale) -> Html | None:
    """Return the choice of a site, and the numbers behind it."""
    known = _known(run)
    if not known:
        return None
    options = [tag("option", "all sites", value="")]
    options += [tag("option", site.name, value=i) for i, site in enumerate(known)]
    rows = {"all": list(run.sizes), "sites": [list(s.sizes or ()) for s in known]}
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


def _shares(run: RunFolder) -> Html | None:
    """Draw how every site's rows fall into the clusters."""
    known = _known(run)
    if not known or (run.kind != MEMBER and len(known) < 2):
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
    others = (
        f"The {SITES} largest sites have a bar of their own; the other "
        f"{count(len(rest), 'site')} share the last one."
    )
    drawing = figure(
        "Which cluster lives where",
        "Every site's rows by cluster, as shares of the site.",
        marks(bars, label="sites and their clusters"),
        height=14 + BAR * len(rows),
        class_="shares",
    )
    title = "Where its rows fall" if run.kind == MEMBER else "Which cluster lives where"
    return join(tag("h3", title), drawing, note(others) if rest else None)


def _stack(name: str, sizes: list[int], top: float, x: Scale) -> Html:
    total = sum(sizes) or 1
    label = [shortened(name, NAME), tag("title", name)]
    parts: list[object] = [text(label, 112.0, top + 13, "tick end")]
    done = 0
    for c, size in enumerate(sizes):
        if size == 0:
            continue
        left, width = x(done / total), x(size / total) - x(0.0)
        done += size
        box = {"x": left, "y": top, "width": width, "height": BAR - 5}
        tip = f"{name}: {count(size, 'row')} in cluster {c}, {size / total:.0%}"
        parts += cluster_bar(c, tip, box)
        if width > 7 + 8 * len(str(c)):
            parts.append(cluster_number(c, left + width / 2, top + 13))
    return join(parts)


def _numbers(run: RunFolder) -> Html:
    """Return the tables behind the pictures."""
    known = _known(run)
    parts: list[object] = []
    if run.centers is not None:
        k = run.centers.shape[0]
        header = ["column", *(f"cluster {c}" for c in range(k))]
        centers = run.centers
        parts.append(
            folded_table(
                header,
                [
                    [name, *(_value(run, j, float(centers[c, j]), 5) for c in range(k))]
                    for j, name in enumerate(run.columns)
                ],
                "The centres",
            )
        )
    if known:
        header = ["site", "rows", *(f"cluster {c}" for c in range(len(run.sizes)))]
        parts.append(
            folded_table(
                header,
                [
                    [site.name, f"{site.rows:,}", *(f"{n:,}" for n in site.sizes or ())]
                    for site in known[:LISTED]
                ],
                "Rows of every site in every cluster",
            )
        )
    return join(parts)
