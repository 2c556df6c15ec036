# SPDX-License-Identifier: Apache-2.0
"""A site of a live run: its file, its promises, what it writes for itself.

An engine may start a new process for every request, so that everything a site knows is
in its folder: `site.json` (what it was told when it joined, and how far it is) and
`memory.bin` (its method's memory). Rows and labels never leave the site.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.protocol import AnyMethod, Clustering
from afcl.core.terms import (
    AskAnnouncement,
    AskHello,
    AskStep,
    Finish,
    Noted,
    Refusal,
    Terms,
)
from afcl.data.stream import HeldTable, OpenSites, Source, open_sites
from afcl.data.tables import Sites
from afcl.exceptions import AfclError, InputError, RejectedMessage
from afcl.methods import get_method
from afcl.privacy.ledger import Ledger
from afcl.privacy.levels import parse_level
from afcl.runtime.agreement import Announcement, announce
from afcl.runtime.codec import decode, encode
from afcl.runtime.results import RESULT, write_labels, write_text
from afcl.runtime.script import ENDING, rows_from
from afcl.runtime.site import ODD, Charge, Site, settled, told_of

SITE, MEMORY, SECRET = "site.json", "memory.bin", "secret.bin"
WAITING, JOINED, REFUSED, DONE = "waiting", "joined", "refused", "done"
#: The site's labels, a line for every row of its files.
LABELED = "labels.csv"
#: What a site has spent, beside its results unless it names another file.
LEDGER = "ledger.json"
#: The one method a site takes part in without being told otherwise.
METHOD = "afcl"


@dataclass(frozen=True)
class Membership:
    """What a site was told when it joined, and how far it is.

    Attributes
    ----------
    data, columns, drop, missing
        The file and which of it counts, as in ``afcl run``.
    name, units
        What the site says of itself.
    min_cell, method, privacy
        What the site insists on, whatever the coordinator asks for: no smaller cells,
        no other method, no weaker level.
    budget, ledger
        The epsilon its rows may cost in all, and the file in which that is kept.
    stream
        Whether its rows stay in their files; None: if they are many.
    run, fingerprint, state, reason
        The run it takes part in, its rows as they were then, and where it stands.
    """

    data: str
    name: str
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: str = "error"
    units: Mapping[str, str] = field(default_factory=dict)
    min_cell: int = 5
    method: str = METHOD
    privacy: str = "summary"
    budget: float | None = None
    ledger: str = ""
    stream: bool | None = None
    run: str = ""
    fingerprint: str = ""
    state: str = WAITING
    reason: str = ""

    def read(self) -> Sites:
        """Read the site's rows into memory; refuses to if they are streamed."""
        opened = self.open()
        held = [source for source in opened.sources if isinstance(source, HeldTable)]
        if not held:
            raise InputError("they are too many to be read at once")
        tables, kept = zip(*((one.table, one.kept) for one in held), strict=True)
        return Sites(tables, opened.notes, kept)

    def open(self, whole: str = "") -> OpenSites:
        """Make the site's rows ready to be read; bad ones end in one line.

        `whole` names what needs them in memory, if something does.
        """
        if self.method != METHOD:
            whole = whole or f"method {self.method}"
        if self.privacy != "summary":
            whole = whole or f"privacy level {self.privacy}"
        if Path(self.data).suffix == ENDING:
            return self._run(whole)
        return open_sites(
            [Path(self.data)],
            columns=self.columns or None,
            drop=self.drop,
            missing=self.missing,
            min_rows=self.min_cell,
            stream=self.stream,
            whole=whole,
        )

    def _run(self, whole: str) -> OpenSites:
        """Let the site's own program say where the rows are."""
        if whole:
            raise InputError(f"{whole} needs all rows in memory: give --data a table")
        if self.columns or self.drop or self.missing != "error":
            raise InputError(
                f"--columns, --drop and --missing are for tables: {self.data} is a "
                "program, let it choose"
            )
        return OpenSites((rows_from(Path(self.data)),), ())


def open_membership(folder: Path) -> Membership:
    """Read how far the site is."""
    try:
        said = json.loads((folder / SITE).read_text(encoding="utf-8"))
        lists = {name: tuple(said[name]) for name in ("columns", "drop")}
        return Membership(**{**said, **lists})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / SITE} cannot be read: {error}") from error


def keep_membership(folder: Path, membership: Membership) -> None:
    """Write how far the site is, whole or not at all."""
    write_text(folder / SITE, json.dumps(asdict(membership), indent=2) + "\n")


def answer(folder: Path, request: bytes) -> bytes:
    """Answer one request of the coordinator, from what is in the site's folder.

    One that makes no sense is refused in one line.
    """
    member = open_membership(folder)
    try:
        return _answer(folder, member, request)
    except AfclError:
        raise
    except ODD as error:
        raise RejectedMessage(f"this request cannot be answered: {error}") from error


def _answer(folder: Path, member: Membership, request: bytes) -> bytes:
    asked = decode(request)
    run = asked.terms.run if hasattr(asked, "terms") else asked.run
    if member.run not in ("", run):
        raise RejectedMessage(f"{member.name} takes part in another run")
    if isinstance(asked, Refusal):
        keep_membership(
            folder, replace(member, run=run, state=REFUSED, reason=asked.reason)
        )
        return encode(Noted(run))
    source = member.open(_whole(asked)).sources[0]
    found = source.fingerprint()
    if member.fingerprint not in ("", found):
        raise RejectedMessage(f"the rows of {member.name} have changed during the run")
    if isinstance(asked, AskAnnouncement):
        joined = replace(member, run=run, fingerprint=found, state=JOINED)
        keep_membership(folder, joined)
        return encode(_announcement(member, source, asked))
    if isinstance(asked, Finish):
        _finish(folder, member, source, asked)
        return encode(Noted(run))
    if not isinstance(asked, AskHello | AskStep):
        raise RejectedMessage(f"a site cannot answer a {type(asked).__name__}")
    check_terms(member, asked.terms)
    secret, charge = keep_secret(folder), _account(folder, member, found)
    return _work(folder, Site(source.rows, source.columns, secret, charge), request)


def _whole(asked: Any) -> str:
    """Name what needs all rows in memory to be answered, if something does."""
    if isinstance(asked, AskAnnouncement):
        return "a privacy level with groups" if asked.group > 1 else ""
    if not isinstance(asked, AskHello | AskStep | Finish):
        return ""
    if asked.terms.method != METHOD:
        return f"method {asked.terms.method}"
    level = getattr(settled(asked.terms)[1], "privacy", "summary")
    return "" if level == "summary" else f"privacy level {level}"


def _announcement(
    member: Membership, source: Source, asked: AskAnnouncement
) -> Announcement:
    """Return what the site says of itself."""
    if not isinstance(source, HeldTable):
        # Only the number of rows is asked of these, and the extremes and medians of
        # what is told: three rows say them.
        ranges = source.ranges()
        rows = np.broadcast_to(ranges.low, source.shape)
        told = np.stack([ranges.low, source.medians(), ranges.high])
    else:
        rows = source.table.values
        group = max(asked.group, parse_level(member.privacy).group)
        told = told_of(rows, group)
    return announce(
        member.name, source.columns, rows, member.units, asked.extremes, told
    )


def keep_secret(folder: Path) -> bytes:
    """Return what only this site knows, drawn once; nobody else may read the file."""
    path = folder / SECRET
    if not path.is_file():
        part = path.with_name(f"{SECRET}.{os.getpid()}.part")
        opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # the first one to come decides
        except FileExistsError:
            pass
        finally:
            part.unlink()
    return path.read_bytes()


def _account(folder: Path, member: Membership, data: str) -> Charge:
    """Return what is called, with its cost, before anything private is sent."""
    ledger = Ledger(Path(member.ledger or folder / LEDGER), member.budget)

    def charge(purpose: str, mu: float) -> None:
        try:
            ledger.charge(data, purpose, mu)
        except InputError as error:
            raise RejectedMessage(f"{member.name}: {error}") from error

    return charge


def check_terms(member: Membership, terms: Terms) -> None:
    """Refuse to say more than the site has promised to say."""
    if terms.method != member.method:
        raise RejectedMessage(
            f"{member.name} takes part in {member.method} only, not in {terms.method}: "
            f"join with --method {terms.method} to allow it"
        )
    _, parameters = settled(terms)
    least = getattr(parameters, "min_cell", member.min_cell)
    if least < member.min_cell:
        raise RejectedMessage(
            f"{member.name} sends no cells of fewer than {member.min_cell} rows: join "
            f"with --min-cell {least} to allow it"
        )
    insists = parse_level(member.privacy)
    level = getattr(parameters, "privacy", None)
    if level is not None and not insists.allows(parse_level(level)):
        raise RejectedMessage(
            f"{member.name} insists on privacy {insists}, this run is {level}: join "
            f"with --privacy '{level}' to allow it"
        )


def _work(folder: Path, site: Site, request: bytes) -> bytes:
    """Answer with the memory of the last time, and keep the new one."""
    kept = folder / MEMORY
    if kept.is_file():
        site.memory = decode(kept.read_bytes())
    said = site.answer(request)
    if site.memory is not None:
        part = kept.with_name(kept.name + ".part")
        part.write_bytes(encode(site.memory))
        part.replace(kept)
    return said


def _finish(folder: Path, member: Membership, source: Source, asked: Finish) -> None:
    """Label the site's own rows, and write what it takes home."""
    if (folder / RESULT).is_file():
        return
    memory = folder / MEMORY
    known = decode(memory.read_bytes()) if memory.is_file() else None
    clustering = asked.answer.clustering()
    method = get_method(asked.terms.method)
    sizes = np.zeros(clustering.k, dtype=np.int64)

    def counted(parts: Iterable[Ints]) -> Iterator[Ints]:
        for labels in parts:
            sizes[:] += np.bincount(labels, minlength=clustering.k)
            yield labels

    label = partial(_label, method, clustering, known, asked.terms.client)
    site = Site(source.rows, source.columns)
    if isinstance(source, HeldTable):
        (labels,) = counted([label(site.scaled(asked.terms))])
        write_labels(folder / LABELED, source.in_input_order(labels))
    else:
        parts = counted(site.agreed(asked.terms).map(label))
        write_labels(folder / LABELED, source.in_input_order(parts))
    result: dict[str, Any] = json.loads(asked.facts)
    result["site"] = {
        "name": member.name,
        "rows": int(sizes.sum()),
        "sizes": [int(size) for size in sizes],
    }
    write_text(folder / RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n")
    keep_membership(folder, replace(member, state=DONE))


def _label(
    method: AnyMethod, clustering: Clustering, known: Any, client: int, part: Floats
) -> Ints:
    """Label some rows; what is counted is counted here, wherever they are."""
    return method.label(clustering, part, known, client)
