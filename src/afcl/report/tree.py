# SPDX-License-Identifier: Apache-2.0
"""The merge tree of the seeds, its lowest branches folded when there are many."""

from __future__ import annotations

import math
from dataclasses import dataclass

from afcl.report.markup import Html, count, tag
from afcl.report.run_folder import RunFolder, Tree
from afcl.report.svg import WIDTH, Scale, axes, colour, figure, mark, marks, ticks

#: Branches drawn; what lies below is folded into them.
BRANCHES = 40
#: Size of the drawing, and where its highest and its lowest merge may lie.
HEIGHT = 250.0
TOP = 36.0
BOTTOM = 208.0


@dataclass(frozen=True)
class Node:
    """A node of the tree: rows (None: not known), seeds, height, clusters below."""

    rows: int | None
    seeds: tuple[int, ...]
    height: float
    children: tuple[int, int] | None


def nodes_of(tree: Tree) -> list[Node]:
    """Return every node; the height is the root of what the merge costs."""
    nodes = [Node(size, (leaf,), 0.0, None) for leaf, size in enumerate(tree.sizes)]
    for left, right, cost, size in tree.merges:
        seeds = nodes[left].seeds + nodes[right].seeds
        nodes.append(Node(size, seeds, math.sqrt(max(cost, 0.0)), (left, right)))
    return nodes


def cluster_of_seeds(run: RunFolder) -> list[int] | None:
    """Return the cluster nearest to every seed, where seeds are the tree's leaves."""
    steps = run.history.steps
    seeds = steps[-1].seeds if steps else None
    if seeds is None or run.centers is None or run.low is None or run.span is None:
        return None
    if run.tree is None or len(run.tree.sizes) != seeds.shape[0]:
        return None
    centers = run.scaled(run.centers)
    if centers.shape[1] != seeds.shape[1]:
        return None
    apart = ((seeds[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    return [int(nearest) for nearest in apart.argmin(axis=1)]


def drawn(nodes: list[Node], leaves: int) -> tuple[list[int], int]:
    """Return the lowest nodes to draw, from left to right, and the first one drawn.

    The last `BRANCHES` - 1 merges are drawn; all nodes made before them are folded.
    """
    merges = len(nodes) - leaves
    first = leaves + max(0, merges - (BRANCHES - 1))
    order: list[int] = []
    waiting = [len(nodes) - 1]
    while waiting:
        node = waiting.pop()
        children = nodes[node].children
        if node >= first and children is not None:
            left, right = sorted(children, key=lambda n: len(nodes[n].seeds))
            waiting += [right, left]
        else:
            order.append(node)
    return order, first


def tree_figure(run: RunFolder) -> Html:
    """Draw the tree with the cut that gives the chosen k."""
    tree, k = run.tree, run.n_clusters or 1
    assert tree is not None
    leaves = len(tree.sizes)
    nodes = nodes_of(tree)
    order, first = drawn(nodes, leaves)
    nearest = cluster_of_seeds(run)
    x = Scale(0, max(1, len(order) - 1), 62.0, WIDTH - 18)
    y = Scale(0.0, nodes[-1].height * 1.06 or 1.0, BOTTOM, TOP)
    place = {node: x(i) for i, node in enumerate(order)}
    branches = []
    for node in range(first, len(nodes)):
        left, right = nodes[node].children or (node, node)
        place[node] = (place[left] + place[right]) / 2
        branches.append(_branch(nodes, node, place, y, nearest))
    feet = [_foot(nodes, node, place[node], y, nearest) for node in order]
    folded = leaves - len(order)
    note = f", the {folded} lowest merges folded" if folded else ""
    description = (
        f"{count(leaves, 'seed')} joined two by two{note}; the height is the square "
        f"root of what a merge costs. Cut at k = {k}."
    )
    return figure(
        "Merge tree of the seeds",
        description,
        axes(
            x,
            y,
            [],
            ticks(0.0, y.high, 4),
            f"{count(leaves, 'seed')}{note}",
            "Height of the merge",
        ),
        _cut(nodes, leaves, k, y),
        marks(branches, label="merges"),
        marks(feet, label="seeds"),
        height=HEIGHT,
        class_="tree",
    )


def _below(nodes: list[Node], node: int, nearest: list[int] | None) -> list[int]:
    if nearest is None:
        return []
    return sorted({nearest[seed] for seed in nodes[node].seeds})


def _in_words(nodes: list[Node], node: int, nearest: list[int] | None) -> str:
    rows = nodes[node].rows
    text = "rows of this seed not told apart from its neighbour's"
    if rows is not None:
        text = count(rows, "row")
    text += f", {count(len(nodes[node].seeds), 'seed')}"
    clusters = _below(nodes, node, nearest)
    if len(clusters) == 1:
        return text + f", cluster {clusters[0]}"
    if clusters:
        shown = ", ".join(map(str, clusters[:12])) + (", …" if clusters[12:] else "")
        return text + f", clusters {shown}"
    return text


def _branch(
    nodes: list[Node],
    node: int,
    place: dict[int, float],
    y: Scale,
    nearest: list[int] | None,
) -> Html:
    left, right = nodes[node].children or (node, node)
    top = y(nodes[node].height)
    clusters = _below(nodes, node, nearest)
    paint = f"stroke {colour(clusters[0])}" if len(clusters) == 1 else ""
    path = (
        f"M{place[left]:.1f} {y(nodes[left].height):.1f}V{top:.1f}"
        f"H{place[right]:.1f}V{y(nodes[right].height):.1f}"
    )
    tip = f"A merge: {_in_words(nodes, node, nearest)}"
    return mark("path", tip, f"branch {paint}".strip(), d=path)


def _foot(
    nodes: list[Node], node: int, x: float, y: Scale, nearest: list[int] | None
) -> Html:
    clusters = _below(nodes, node, nearest)
    paint = f"fill {colour(clusters[0])}" if len(clusters) == 1 else "plain"
    what = "Folded" if nodes[node].children is not None else "A seed"
    tip = f"{what}: {_in_words(nodes, node, nearest)}"
    at = y(nodes[node].height)
    return mark("circle", tip, f"foot {paint}", cx=x, cy=at, r=3.0)


def _cut(nodes: list[Node], leaves: int, k: int, y: Scale) -> Html | None:
    """Return the line that leaves k branches hanging."""
    if not 2 <= k <= leaves:
        return None
    above, below = nodes[len(nodes) - k + 1].height, nodes[len(nodes) - k].height
    at = y((above + below) / 2)
    return tag(
        "g",
        tag("line", x1=56.0, x2=WIDTH - 6, y1=at, y2=at, class_="cut"),
        tag("text", f"k′ = {k}", x=WIDTH - 8, y=at - 5, class_="label end halo"),
    )
