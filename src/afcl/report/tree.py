# SPDX-License-Identifier: Apache-2.0
"""The merge tree of seeds or cells, its lowest branches folded when there are many."""

from __future__ import annotations

import math
from dataclasses import dataclass

from afcl._typing import Floats
from afcl.report.markup import Html, count, tag
from afcl.report.run_folder import RunFolder, Tree
from afcl.report.svg import WIDTH, Scale, axes, colour, figure, mark, marks, text, ticks

#: Branches drawn; what lies below is folded into them.
BRANCHES = 40
#: Height of the drawing.
HEIGHT = 250.0
#: Where the highest merge may lie.
TOP = 36.0
#: Where the seeds stand.
BOTTOM = 208.0
#: Room on the right for the name of the cut.
BESIDE = 70.0


@dataclass(frozen=True)
class TreeNode:
    """A node of the tree: rows (None: not known), seeds, height, clusters below."""

    rows: int | None
    seeds: tuple[int, ...]
    height: float
    children: tuple[int, int] | None
    clusters: tuple[int, ...] = ()


def nodes_of(
    tree: Tree, nearest: list[int] | None = None, cubes: bool = False
) -> list[TreeNode]:
    """Return every node; the height is the root of what the merge costs.

    `nearest`: every seed's cluster, if that is known. With `cubes` merges cost cubes of
    distances and need not be in order: the height is the cube root of the dearest so
    far.
    """
    dearest = 0.0
    nodes = [
        TreeNode(size, (leaf,), 0.0, None, (nearest[leaf],) if nearest else ())
        for leaf, size in enumerate(tree.sizes)
    ]
    for left, right, cost, size in tree.merges:
        seeds = nodes[left].seeds + nodes[right].seeds
        below = tuple(sorted({*nodes[left].clusters, *nodes[right].clusters}))
        dearest = max(dearest, cost)
        height = math.cbrt(dearest) if cubes else math.sqrt(max(cost, 0.0))
        nodes.append(TreeNode(size, seeds, height, (left, right), below))
    return nodes


def nearest_clusters(seeds: Floats, centers: Floats) -> list[int]:
    """Return the cluster whose centre is nearest to every seed."""
    apart = ((seeds[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    return [int(nearest) for nearest in apart.argmin(axis=1)]


def cluster_of_seeds(run: RunFolder) -> list[int] | None:
    """Return the cluster nearest to every seed, where seeds are the tree's leaves.

    Cells that are the leaves have theirs.
    """
    if run.shape is not None:
        return [int(cluster) for cluster in run.shape.clusters]
    steps = run.history.steps
    seeds = steps[-1].seeds if steps else None
    if seeds is None or run.centers is None or run.low is None or run.span is None:
        return None
    if run.tree is None or len(run.tree.sizes) != seeds.shape[0]:
        return None
    centers = run.scaled(run.centers)
    if centers.shape[1] != seeds.shape[1]:
        return None
    return nearest_clusters(seeds, centers)


def drawn(nodes: list[TreeNode], leaves: int) -> tuple[list[int], int]:
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
    leaves, noun = len(tree.sizes), "seed" if run.shape is None else run.shape.noun
    nodes = nodes_of(tree, cluster_of_seeds(run), cubes=run.shape is not None)
    order, first = drawn(nodes, leaves)
    x = Scale(0, max(1, len(order) - 1), 62.0, WIDTH - BESIDE)
    y = Scale(0.0, nodes[-1].height * 1.06 or 1.0, BOTTOM, TOP)
    place = {node: x(i) for i, node in enumerate(order)}
    branches = []
    for node in range(first, len(nodes)):
        left, right = nodes[node].children or (node, node)
        place[node] = (place[left] + place[right]) / 2
        branches.append(_branch(nodes, node, place, y, noun))
    feet = [_foot(nodes[node], place[node], y, noun) for node in order]
    folded = leaves - len(order)
    note = f", the {folded} lowest merges folded" if folded else ""
    height = "the square root of what a merge costs"
    if run.shape is not None:
        height = "the cube root of what the dearest merge so far costs"
    description = (
        f"{count(leaves, noun)} joined two by two{note}; the height is {height}. "
        f"Cut at k = {k}."
    )
    return figure(
        f"Merge tree of the {noun}s",
        description,
        axes(
            x,
            y,
            [],
            ticks(0.0, y.high, 4),
            f"{count(leaves, noun)}{note}",
            "Height of the merge",
        ),
        _cut(nodes, leaves, k, y),
        marks(branches, label="merges"),
        marks(feet, label=f"{noun}s"),
        height=HEIGHT,
        class_="tree",
    )


def _in_words(node: TreeNode, noun: str) -> str:
    words = f"rows of this {noun} not told apart from its neighbour's"
    if node.rows is not None:
        words = count(node.rows, "row")
    words += f", {count(len(node.seeds), noun)}"
    clusters = node.clusters
    if len(clusters) == 1:
        return f"{words}, cluster {clusters[0]}"
    if clusters:
        shown = ", ".join(map(str, clusters[:12])) + (", …" if clusters[12:] else "")
        return f"{words}, clusters {shown}"
    return words


def _branch(
    nodes: list[TreeNode], number: int, place: dict[int, float], y: Scale, noun: str
) -> Html:
    node = nodes[number]
    left, right = node.children or (number, number)
    top = y(node.height)
    paint = f" stroke {colour(node.clusters[0])}" if len(node.clusters) == 1 else ""
    path = (
        f"M{place[left]:.1f} {y(nodes[left].height):.1f}V{top:.1f}"
        f"H{place[right]:.1f}V{y(nodes[right].height):.1f}"
    )
    return mark("path", f"A merge: {_in_words(node, noun)}", f"branch{paint}", d=path)


def _foot(node: TreeNode, x: float, y: Scale, noun: str) -> Html:
    paint = f"fill {colour(node.clusters[0])}" if len(node.clusters) == 1 else "plain"
    tip = f"{'Folded' if node.children else f'A {noun}'}: {_in_words(node, noun)}"
    return mark("circle", tip, f"foot {paint}", cx=x, cy=y(node.height), r=3.0)


def _cut(nodes: list[TreeNode], leaves: int, k: int, y: Scale) -> Html | None:
    """Return the line that leaves k branches hanging."""
    if not 2 <= k <= leaves:
        return None
    above, below = nodes[len(nodes) - k + 1].height, nodes[len(nodes) - k].height
    at = y((above + below) / 2)
    return tag(
        "g",
        tag("line", x1=56.0, x2=WIDTH - BESIDE + 8, y1=at, y2=at, class_="cut"),
        # Beside the tree, where no branch can run through it.
        text(f"k′ = {k}", WIDTH - BESIDE + 12, at + 4, "label"),
    )
