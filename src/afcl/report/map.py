# SPDX-License-Identifier: Apache-2.0
"""The map: centres, seeds and the ways the seeds went; at a site also its own rows.

Of clusters that are not round it shows the cells they consist of instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.report.markup import Html, count, join, note, number, section, tag
from afcl.report.run_folder import MEMBER, RunFolder
from afcl.report.shape_facts import ShapeFacts
from afcl.report.svg import (
    WIDTH,
    Scale,
    axes,
    cluster_number,
    colour,
    figure,
    hatch,
    line,
    mark,
    marks,
    padded,
    shape,
    ticks,
)
from afcl.report.tables import folded_table
from afcl.report.tree import nearest_clusters

#: Rows of a site that are drawn at most.
ROWS = 2000
#: Versions of the seeds that are drawn at most.
VERSIONS = 60
#: Of the drawing.
HEIGHT = 400.0


@dataclass(frozen=True)
class Plane:
    """How points become places: the map, names of its axes, a sentence about it."""

    flat: Callable[[Floats], Floats]
    x: str
    y: str
    description: str


def map_section(run: RunFolder) -> Html:
    """Return the section with the map."""
    versions = [] if run.shape is not None else seed_versions(run)
    centers = None if run.centers is None else run.scaled(run.centers)
    if not versions and centers is None:
        why = "There are no centres to draw yet."
        if run.done:
            why = "This method has no centres, so there is no map."
        return section("map", "The map", note(why))
    rows, labels, about = own_rows(run)
    plane = plane_of(run, versions, centers, rows)
    drawing = _draw(run, plane, versions, centers, rows, labels)
    return section(
        "map",
        "The map",
        tag("p", plane.description),
        note(about) if about else None,
        tag("div", drawing, class_="card wide"),
        None if centers is None else _numbers(plane.flat(centers), plane),
    )


# ------------------------------------------------------------------ what is there


def seed_versions(run: RunFolder) -> list[Floats]:
    """Return the seeds of the last build and of the rounds before it with as many.

    Rounds that left the seeds where they were are left out.
    """
    versions: list[Floats] = []
    for step in reversed(run.history.steps):
        seeds = step.seeds
        if seeds is None:
            continue
        if versions and seeds.shape != versions[-1].shape:
            break
        if not versions or not np.array_equal(seeds, versions[-1]):
            versions.append(seeds)
    versions.reverse()
    if len(versions) > VERSIONS:
        kept = np.linspace(0, len(versions) - 1, VERSIONS).round().astype(int)
        versions = [versions[i] for i in kept]
    return versions


def own_rows(run: RunFolder) -> tuple[Floats | None, Ints | None, str]:
    """Return a site's own rows (a sample of many) and what to say of them."""
    own = run.own
    if own is None or run.kind != MEMBER:
        return None, None, ""
    if own.values is None or own.labels is None:
        return None, None, own.note
    values, labels = run.scaled(own.values), own.labels
    text = f"The small marks are this site's own {count(len(values), 'row')}"
    if len(values) > ROWS:
        rng = np.random.default_rng(0)
        kept = np.sort(rng.choice(len(values), ROWS, replace=False))
        text = (
            f"The small marks are {ROWS:,} of this site's own {len(values):,} rows, "
            "drawn at random"
        )
        values, labels = values[kept], labels[kept]
    return values, labels, f"{text}; they were put on this page here, on this machine."


# ------------------------------------------------------------------ the plane


def plane_of(
    run: RunFolder, versions: list[Floats], centers: Floats | None, rows: Floats | None
) -> Plane:
    """Return the plane the map lies in."""
    known = [centers, versions[-1] if versions else None]
    if run.shape is not None:
        known = [run.scaled(run.shape.points)]
    cloud = np.concatenate([points for points in known if points is not None])
    width = cloud.shape[1]
    names = run.columns if len(run.columns) == width else ()
    units = run.low is not None and run.span is not None
    if width <= 2:
        return _coordinates(run, width, names, units)
    if rows is not None and cloud.shape[0] < 3:
        cloud = np.concatenate([cloud, rows])
    what = "centres and seeds" if run.shape is None else f"the {run.shape.noun}s"
    return _principal(cloud, what)


def _coordinates(
    run: RunFolder, width: int, names: tuple[str, ...], units: bool
) -> Plane:
    where = "in the units of the data" if units else "in the agreed scale (0 to 1)"

    def flat(points: Floats) -> Floats:
        if run.low is not None and run.span is not None:
            points = points * np.where(run.span > 0, run.span, 1.0) + run.low
        if width == 1:
            points = np.column_stack([points[:, 0], np.zeros(points.shape[0])])
        return points

    shown = names or tuple(f"column {j + 1}" for j in range(width))
    if width == 1:
        return Plane(
            flat, shown[0], "", f"The one column {where}; height means nothing."
        )
    return Plane(flat, shown[0], shown[1], f"The two columns themselves, {where}.")


def _principal(cloud: Floats, what: str) -> Plane:
    middle = cloud.mean(axis=0)
    _, strength, axes_ = np.linalg.svd(cloud - middle, full_matrices=False)
    variance = strength**2
    share = float(variance[:2].sum() / variance.sum()) if variance.sum() > 0 else 1.0
    basis = np.zeros((2, cloud.shape[1]))
    basis[: min(2, axes_.shape[0])] = axes_[:2]

    def flat(points: Floats) -> Floats:
        there: Floats = (points - middle) @ basis.T
        return there

    description = (
        f"{cloud.shape[1]} columns, seen from where {what} lie furthest apart (the "
        "first two principal components, in the agreed scale): the plane keeps "
        f"{share:.0%} of their spread. Things that are close on it may still differ in "
        "what it leaves out."
    )
    return Plane(flat, "first component", "second component", description)


# ------------------------------------------------------------------ the drawing


def _draw(
    run: RunFolder,
    plane: Plane,
    versions: list[Floats],
    centers: Floats | None,
    rows: Floats | None,
    labels: Ints | None,
) -> Html:
    ways = [plane.flat(seeds) for seeds in versions]
    middles = None if centers is None else plane.flat(centers)
    dots = None if rows is None else plane.flat(rows)
    cells = None if run.shape is None else plane.flat(run.scaled(run.shape.points))
    if cells is not None and run.shape is not None:
        middles = None  # a ring has its centre elsewhere
    seen = [p for p in (*ways, middles, dots, cells) if p is not None]
    cloud = np.concatenate(seen)
    x_range, y_range = padded(cloud[:, 0].tolist()), padded(cloud[:, 1].tolist())
    x = Scale(*x_range, 56.0, WIDTH - 16)
    y = Scale(*y_range, HEIGHT - 42, 28.0)
    parts: list[object] = [
        axes(
            x, y, ticks(*x_range), ticks(*y_range) if plane.y else [], plane.x, plane.y
        )
    ]
    if dots is not None and labels is not None:
        parts.append(_rows(dots, labels, x, y))
    if len(ways) > 1:
        parts.append(_ways(ways, x, y))
    if ways:
        parts.append(_seeds(ways, versions[-1], centers, x, y))
    if middles is not None:
        parts.append(_centers(run, middles, x, y))
    caption = _caption(middles, ways)
    if cells is not None and run.shape is not None:
        parts.append(_cells(run.shape, cells, x, y))
        caption = _caption_of_cells(run.shape)
    return join(
        figure("Map of the clusters", caption, *parts, height=HEIGHT, class_="map"),
        note(caption),
    )


def _caption(middles: Floats | None, ways: list[Floats]) -> str:
    """Say what the marks are."""
    parts = []
    if middles is not None:
        parts.append("numbered discs are the centres, bigger for bigger clusters")
    if ways:
        parts.append(f"small rings are the {count(len(ways[-1]), 'seed')}")
    if len(ways) > 1:
        parts.append(f"thin lines are their ways through {len(ways)} versions")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def _caption_of_cells(shape: ShapeFacts) -> str:
    if shape.rows is None:
        return (
            "Small marks are the places by which rows are labelled; every cluster is "
            "numbered once."
        )
    text = (
        "Small marks are the cells, bigger for more rows; every cluster is numbered "
        "once."
    )
    if shape.sparse is not None and shape.sparse.any():
        text += (
            f" Hollow ones, {int(shape.sparse.sum())}, are much sparser than their "
            "clusters: rows there may be outliers."
        )
    return text


def _cells(drawn: ShapeFacts, points: Floats, x: Scale, y: Scale) -> Html:
    """Draw cells, or places, by cluster; the numbers stand on top of them."""
    rows, sparse = drawn.rows, drawn.sparse
    most = 1 if rows is None else int(rows.max())
    discs: list[object] = []
    for i, (a, b) in enumerate(points.tolist()):
        c, r = int(drawn.clusters[i]), 4.0
        tip = f"A {drawn.noun} of cluster {c}"
        if rows is not None:
            r = 3.0 + 5.0 * (int(rows[i]) / most) ** 0.5
            tip += f": {count(int(rows[i]), 'row')}"
        kind = f"cell fill {colour(c)}"
        if sparse is not None and sparse[i]:
            kind, tip = f"cell sparse stroke {colour(c)}", f"{tip}, sparse"
        discs.append(mark("path", tip, kind, d=shape(c, x(a), y(b), r)))
    for i in drawn.leading():
        c, (a, b) = int(drawn.clusters[i]), points[i].tolist()
        at = {"cx": x(a), "cy": y(b), "r": 10.0}
        discs.append(mark("circle", f"Cluster {c}", f"center fill {colour(c)}", **at))
        over = hatch(c)
        if over is not None:
            discs.append(tag("circle", fill=over, class_="bar-hatch", **at))
        discs.append(cluster_number(c, x(a), y(b) + 4))
    return marks(discs, label=f"{drawn.noun}s")


def _rows(points: Floats, labels: Ints, x: Scale, y: Scale) -> Html:
    """Draw a site's rows: one path for all rows of a cluster, with its own shape."""
    paths = []
    for c in np.unique(labels).tolist():
        mine = points[labels == c]
        outline = "".join(shape(c, x(a), y(b), 1.8) for a, b in mine.tolist())
        paths.append(tag("path", d=outline, class_=f"row fill {colour(c)}"))
    return tag("g", paths, class_="rows")


def _ways(ways: list[Floats], x: Scale, y: Scale) -> Html:
    lines = []
    for seed in range(ways[0].shape[0]):
        points = [(x(float(w[seed, 0])), y(float(w[seed, 1]))) for w in ways]
        lines.append(line(points, "way"))
    return tag("g", lines, class_="ways")


def _seeds(
    ways: list[Floats], seeds: Floats, centers: Floats | None, x: Scale, y: Scale
) -> Html:
    nearest: list[int] | None = None
    if centers is not None:
        nearest = nearest_clusters(seeds, centers)
    rings = []
    for seed, (a, b) in enumerate(ways[-1].tolist()):
        tip = f"Seed {seed}"
        if nearest is not None:
            tip += f", nearest to cluster {nearest[seed]}"
        rings.append(mark("circle", tip, "seed", cx=x(a), cy=y(b), r=3.0))
    return marks(rings, label="seeds")


def _centers(run: RunFolder, middles: Floats, x: Scale, y: Scale) -> Html:
    total = sum(run.sizes) or 1
    discs: list[object] = []
    for c, (a, b) in enumerate(middles.tolist()):
        share = run.sizes[c] / total if c < len(run.sizes) else 0.0
        r = 8 + 10 * share**0.5
        tip = f"Centre of cluster {c}: {number(share * 100)} % of the rows"
        at = {"cx": x(a), "cy": y(b), "r": r}
        discs.append(mark("circle", tip, f"center fill {colour(c)}", **at))
        over = hatch(c)
        if over is not None:
            discs.append(tag("circle", fill=over, class_="bar-hatch", **at))
        discs.append(cluster_number(c, x(a), y(b) + 4))
    return marks(discs, label="centres")


def _numbers(middles: Floats, plane: Plane) -> Html:
    return folded_table(
        ["cluster", plane.x, plane.y or "–"],
        [[c, number(a, 4), number(b, 4)] for c, (a, b) in enumerate(middles.tolist())],
    )
