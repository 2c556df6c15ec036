# SPDX-License-Identifier: Apache-2.0
"""Sites to be attacked: three small tables, their folders, and a lying coordinator.

The tables have the digits of Iris (one decimal), Seeds (two to four decimals, seven
columns) and Transfusion (whole numbers, one column a multiple of another).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from afcl._typing import Bools, Floats
from afcl.core.protocol import AnyMethod
from afcl.core.terms import AskAnnouncement, AskRanges, Terms
from afcl.exceptions import RejectedMessage
from afcl.methods import get_method
from afcl.privacy.attacks import Exchange
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator, Spec
from afcl.runtime.inprocess import InProcess
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.schedule import Schedule
from afcl.scale import Box

#: Rows of a site.
ROWS = 40


def iris_like(seed: int, n: int = ROWS) -> Floats:
    """Return measurements in tenths, four columns, three kinds of flowers."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    drawn = rng.normal(kinds[rng.integers(0, 3, n)], (0.5, 0.35, 0.4, 0.2))
    rounded: Floats = np.round(np.maximum(drawn, 0.1), decimals=1).astype(np.float64)
    return rounded


def seeds_like(seed: int, n: int = ROWS) -> Floats:
    """Return seven measurements of two to four decimals, three kinds of kernels."""
    rng = np.random.default_rng(seed)
    kinds = np.array([11.9, 14.4, 18.3])[rng.integers(0, 3, n)]
    areas = rng.normal(kinds, 1.0)
    columns = [
        areas,
        4.0 + 0.68 * areas + rng.normal(0, 0.2, n),
        rng.normal(0.87, 0.02, n),
        2.9 + 0.18 * areas + rng.normal(0, 0.1, n),
        1.4 + 0.12 * areas + rng.normal(0, 0.1, n),
        np.abs(rng.normal(3.5, 1.4, n)),
        2.5 + 0.2 * areas + rng.normal(0, 0.2, n),
    ]
    digits = (2, 2, 4, 3, 3, 3, 3)
    return np.stack(
        [np.round(c, k) for c, k in zip(columns, digits, strict=True)], axis=1
    )


def transfusion_like(seed: int, n: int = ROWS) -> Floats:
    """Return whole numbers: months, donations, their volume, months since the first."""
    rng = np.random.default_rng(seed)
    recency = rng.choice([2, 4, 11, 14, 16, 21, 23], n) + rng.integers(0, 2, n)
    times = 1 + rng.geometric(0.18, n)
    first = recency + np.where(times > 1, rng.integers(2, 75, n), 0)
    return np.stack([recency, times, 250 * times, first], axis=1).astype(np.float64)


#: A site of each kind, by name.
TABLES = {"iris": iris_like, "seeds": seeds_like, "transfusion": transfusion_like}


def names_of(rows: Floats) -> tuple[str, ...]:
    """Return names for the columns of a table."""
    return tuple(f"c{i}" for i in range(rows.shape[1]))


def bounds_of(rows: Floats) -> Box:
    """Return the box of a table: what a coordinator knows after the agreement."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    return Box(low, np.where(high > low, high - low, 1.0))


def write_rows(path: Path, rows: Floats) -> Path:
    """Write a site's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(dict(zip(names_of(rows), rows.T, strict=True))).write_csv(path)
    return path


@dataclass
class Victim:
    """A site that has joined: its folder holds all that it keeps.

    Attributes
    ----------
    folder
        The site's folder.
    rows
        What must not become known; attacks are judged by them and never see them.
    refused
        How many requests it has refused.
    """

    folder: Path
    rows: Floats
    refused: int = 0
    memory: None = None  # a site in a folder keeps its memory there

    def ask(self, request: Any) -> Any | None:
        """Return the decoded answer, None if the site refuses."""
        sent = encode(request)
        try:
            return decode(answer(self.folder, sent))
        except RejectedMessage:
            self.refused += 1
            return None

    def answer(self, request: bytes) -> bytes:
        """Answer a coordinator in this process, which asks for ranges first."""
        asked = decode(request)
        if not isinstance(asked, AskRanges):
            return answer(self.folder, request)
        announced = AskAnnouncement(asked.run, asked.extremes, asked.group)
        said = decode(answer(self.folder, encode(announced)))
        return encode(said.ranges(said.columns))


def joined(folder: Path, rows: Floats, **promises: Any) -> Victim:
    """Let a site join a run: its file and its membership, one folder for every run.

    The file is the folder's neighbour and stays when the site joins another run.
    """
    data = write_rows(folder.parent / "rows.csv", rows)
    known = {field.name for field in fields(Membership)}
    given = {name: value for name, value in promises.items() if name in known}
    folder.mkdir(parents=True, exist_ok=True)
    keep_membership(folder, Membership(str(data), folder.parent.name, **given))
    return Victim(folder, rows)


def terms_for(
    rows: Floats,
    privacy: str,
    *,
    run: str = "run",
    box: Box | None = None,
    columns: tuple[str, ...] = (),
    seed: int = 0,
    n_rows: int | None = None,
    **options: Any,
) -> Terms:
    """Return the terms of a run of five sites of this size, as client 0 hears them."""
    return Terms(
        run,
        "afcl",
        json.dumps({"privacy": privacy, **options}),
        seed,
        0,
        bounds_of(rows) if box is None else box,
        5 * rows.shape[0] if n_rows is None else n_rows,
        columns or names_of(rows),
    )


def share_recovered(points: Floats, rows: Floats, digits: int = 6) -> float:
    """Return the share of rows that some point names, to decimals of their box."""
    return float(_meet(points, rows, digits).any(axis=0).mean())


def share_right(points: Floats, rows: Floats, digits: int = 6) -> float:
    """Return the share of points that are rows."""
    return float(_meet(points, rows, digits).any(axis=1).mean())


def _meet(points: Floats, rows: Floats, digits: int) -> Bools:
    """Return which points name which rows."""
    box = bounds_of(rows)
    named = box.scale(np.reshape(points, (-1, rows.shape[1])))
    gaps = np.abs(named[:, None, :] - box.scale(rows)[None, :, :])
    near: Bools = gaps.max(axis=2) <= 10.0**-digits
    return near


def honest_run(
    victims: Sequence[Victim],
    run: str,
    seed: int,
    privacy: str,
    scale: Any = "minmax",
) -> list[Exchange]:
    """Run the real coordinator over these sites; return what it heard, by site.

    A run that the sites refuse leaves what was heard before.
    """
    heard: list[Exchange] = []
    taps = [_Tap(victim, client, heard) for client, victim in enumerate(victims)]
    method: AnyMethod = get_method("afcl")
    spec = Spec(method, {"privacy": privacy}, seed, scale, run=run)
    bound = Schedule().bind(len(taps), seed)
    try:
        Coordinator(spec, InProcess(taps, bound)).run()  # type: ignore[arg-type]
    except ValueError:  # nobody has answered
        pass
    return heard


@dataclass
class _Tap:
    """Passes requests on, and keeps what is answered."""

    victim: Victim
    client: int
    heard: list[Exchange]
    memory: None = None

    def answer(self, request: bytes) -> bytes:
        reply = self.victim.answer(request)
        self.heard.append(Exchange(self.client, decode(request), decode(reply)))
        return reply
