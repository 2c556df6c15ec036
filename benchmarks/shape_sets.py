# SPDX-License-Identifier: Apache-2.0
"""Tables whose clusters are not round, drawn: rows and classes, 0 for noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from afcl._typing import Floats, Ints

Drawn = tuple[Floats, Ints]
Draw = Callable[[np.random.Generator], Drawn]


def _classes(sizes: list[int]) -> Ints:
    return np.repeat(np.arange(1, len(sizes) + 1), sizes)


def moons(rng: np.random.Generator, noise: float = 0.07, columns: int = 2) -> Drawn:
    """Two half circles, one in the other's arms; a third column is noise."""
    turn = rng.uniform(0, np.pi, 800)
    upper = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    rows = np.where(np.arange(800)[:, None] < 400, upper, [1.0, 0.5] - upper)
    rows = rows + rng.normal(0, noise, rows.shape)
    rest = rng.normal(0, 0.1, (800, columns - 2))
    return np.hstack([rows, rest]), _classes([400, 400])


def rings(rng: np.random.Generator, k: int = 2, noise: float = 0.05) -> Drawn:
    """Rings around each other."""
    turn = rng.uniform(0, 2 * np.pi, (k, 500))
    radius = np.linspace(0.3, 1.0, k)[:, None]
    rows = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=2)
    rows = rows.reshape(-1, 2) + rng.normal(0, noise, (500 * k, 2))
    return rows, _classes([500] * k)


def spirals(rng: np.random.Generator, k: int = 3, noise: float = 0.02) -> Drawn:
    """Arms that turn around each other."""
    along = np.sqrt(rng.random((k, 320))) * 1.5 * np.pi + 0.5
    turn = along + 2 * np.pi * np.arange(k)[:, None] / k
    rows = np.stack([along * np.cos(turn), along * np.sin(turn)], axis=2) / 5
    return rows.reshape(-1, 2) + rng.normal(0, noise, (320 * k, 2)), _classes([320] * k)


def stripes(rng: np.random.Generator, k: int = 4, width: float = 0.12) -> Drawn:
    """Long bands beside each other."""
    along, across = rng.uniform(0, 6, (k, 240)), rng.normal(0, width, (k, 240))
    rows = np.stack([along, across + np.arange(k)[:, None]], axis=2)
    return rows.reshape(-1, 2), _classes([240] * k)


def nested(rng: np.random.Generator) -> Drawn:
    """Draw a blob in a ring, and another beside."""
    turn = rng.uniform(0, 2 * np.pi, 300)
    ring = 3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    parts = [
        ring + rng.normal(0, 0.2, (300, 2)),
        rng.normal(0, 0.5, (300, 2)),
        rng.normal([7, 0], 0.6, (300, 2)),
    ]
    return np.concatenate(parts), _classes([300] * 3)


def varied(rng: np.random.Generator) -> Drawn:
    """Blobs, each much wider than the last."""
    spots, widths = np.array([[0, 0], [3, 0], [9, 3]]), [0.15, 0.6, 1.5]
    parts = [
        rng.normal(spot, width, (330, 2))
        for spot, width in zip(spots, widths, strict=True)
    ]
    return np.concatenate(parts), _classes([330] * 3)


def slanted(rng: np.random.Generator) -> Drawn:
    """Long Gaussians side by side."""
    spots = np.array([[-9, -3], [0, 0], [8, 2]])
    rows = np.concatenate([rng.normal(spot, 1, (300, 2)) for spot in spots])
    return rows @ np.array([[0.6, -0.64], [-0.41, 0.85]]), _classes([300] * 3)


def corner(rng: np.random.Generator) -> Drawn:
    """Draw a right angle, a blob in it and a bar below."""
    along, across = rng.uniform(0, 4, (3, 200)), rng.normal(0, 0.15, (3, 200))
    parts = [
        np.stack([along[0], across[0]], axis=1),
        np.stack([across[1], along[1]], axis=1),
        rng.normal([3, 3], 0.3, (200, 2)),
        np.stack([along[2], across[2] - 1.5], axis=1),
    ]
    return np.concatenate(parts), _classes([400, 200, 200])


def waves(rng: np.random.Generator) -> Drawn:
    """Two long waves, one above the other."""
    along = rng.uniform(0, 4 * np.pi, (2, 500))
    height = 1.2 * np.sin(along) + [[0.0], [2.2]]
    rows = np.stack([along, height], axis=2).reshape(-1, 2)
    return rows + rng.normal(0, 0.12, rows.shape), _classes([500, 500])


def with_noise(draw: Draw, rng: np.random.Generator) -> Drawn:
    """Strew rows over the whole table, one in twelve."""
    rows, classes = draw(rng)
    n = len(rows) // 12
    low, high = rows.min(axis=0), rows.max(axis=0)
    strewn = rng.uniform(low, high, (n, rows.shape[1]))
    return np.concatenate([rows, strewn]), np.append(classes, np.zeros(n, dtype=int))


DRAWN: dict[str, Draw] = {
    "moons": moons,
    "wide moons": partial(moons, noise=0.12),
    "moons in space": partial(moons, columns=3),
    "moons in noise": partial(with_noise, partial(moons, noise=0.05)),
    "two rings": rings,
    "three rings": partial(rings, k=3, noise=0.04),
    "two spirals": partial(spirals, k=2, noise=0.03),
    "three spirals": spirals,
    "two stripes": partial(stripes, k=2, width=0.15),
    "four stripes": stripes,
    "stripes in noise": partial(with_noise, partial(stripes, k=3, width=0.1)),
    "nested": nested,
    "varied density": varied,
    "slanted": slanted,
    "corner": corner,
    "waves": waves,
}
