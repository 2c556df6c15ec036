# SPDX-License-Identifier: Apache-2.0
"""Sites to be attacked: each in a folder of its own, with the code of a live run.

What a coordinator sends goes through the function that answers it in a live run, so
that everything a site refuses there is refused here. Folders are temporary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from afcl._typing import Floats
from afcl.core.protocol import AnyMethod
from afcl.core.terms import AskAnnouncement, AskRanges, Terms
from afcl.data.features import Embedding
from afcl.exceptions import RejectedMessage
from afcl.methods import get_method
from afcl.privacy.attacks import Exchange
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.schedule import Schedule
from afcl.runtime.spec import Spec
from afcl.scale import Box


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
    frame = pl.DataFrame(dict(zip(names_of(rows), rows.T, strict=True)))
    frame.fill_nan(None).write_csv(path)
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
    asked, refused
        How many requests it was sent, and how many of them it has refused.
    """

    folder: Path
    rows: Floats
    asked: int = 0
    refused: int = 0
    memory: None = None  # a site in a folder keeps its memory there

    def ask(self, request: Any) -> Any | None:
        """Return the decoded answer, None if the site refuses."""
        sent = encode(request)
        self.asked += 1
        try:
            return decode(answer(self.folder, sent))
        except RejectedMessage:
            self.refused += 1
            return None

    def answer(self, request: bytes) -> bytes:
        """Answer a coordinator in this process, which asks for ranges first."""
        asked = decode(request)
        self.asked += 1
        try:
            if not isinstance(asked, AskRanges):
                return answer(self.folder, request)
            announced = AskAnnouncement(asked.run, asked.extremes, asked.group)
            announcement = decode(answer(self.folder, encode(announced)))
        except RejectedMessage:
            self.refused += 1
            raise
        return encode(announcement.ranges(Embedding(announcement.columns, ())))


def joined(folder: Path, rows: Floats, **promises: Any) -> Victim:
    """Let a site join a run: its file and its membership, one folder for every run.

    The file is the folder's neighbour and stays when the site joins another run.
    """
    data = write_rows(folder.parent / "rows.csv", rows)
    known = {field.name for field in fields(Membership)}
    options = {name: value for name, value in promises.items() if name in known}
    folder.mkdir(parents=True, exist_ok=True)
    keep_membership(folder, Membership(str(data), folder.parent.name, **options))
    return Victim(folder, rows)


def terms_for(
    rows: Floats,
    privacy: str,
    *,
    run: str = "run",
    method: str = "afcl",
    box: Box | None = None,
    columns: tuple[str, ...] = (),
    seed: int = 0,
    n_rows: int | None = None,
    **options: Any,
) -> Terms:
    """Return the terms of a run of five sites of this size, as client 0 hears them."""
    return Terms(
        run,
        method,
        json.dumps({"privacy": privacy, **options}),
        seed,
        0,
        bounds_of(rows) if box is None else box,
        5 * rows.shape[0] if n_rows is None else n_rows,
        columns or names_of(rows),
    )


def honest_run(
    victims: Sequence[Victim],
    run: str,
    seed: int,
    privacy: str,
    scale: Any = "minmax",
    **options: Any,
) -> list[Exchange]:
    """Run the real coordinator over these sites; return what it heard, by site.

    A run that the sites refuse leaves what was heard before.
    """
    exchanges: list[Exchange] = []
    taps = [_Tap(victim, client, exchanges) for client, victim in enumerate(victims)]
    method: AnyMethod = get_method("afcl")
    spec = Spec(method, {"privacy": privacy, **options}, seed, scale, run=run)
    bound = Schedule().bind(len(taps), seed)
    try:
        Coordinator(spec, InProcess(taps, bound)).run()  # type: ignore[arg-type]
    except ValueError:  # nobody has answered
        pass
    return exchanges


@dataclass
class _Tap:
    """Passes requests on, and keeps what is answered."""

    victim: Victim
    client: int
    exchanges: list[Exchange]
    memory: None = None

    def answer(self, request: bytes) -> bytes:
        reply = self.victim.answer(request)
        self.exchanges.append(Exchange(self.client, decode(request), decode(reply)))
        return reply
