# SPDX-License-Identifier: Apache-2.0
"""A site of a live run at work: what it answers, and what it writes for itself.

An engine may start a new process for every request, so that everything a site knows is
in its folder: `site.json` (what it was given when it joined, and how far it is) and
`memory.bin` (its method's memory). Rows and labels never leave the site.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Ints
from afcl.core.terms import (
    AskAnnouncement,
    AskHello,
    AskStep,
    Finish,
    Noted,
    Refusal,
    Terms,
)
from afcl.data.sites import SiteTable
from afcl.data.tables import Table
from afcl.exceptions import AfclError, InputError, RejectedMessage
from afcl.methods import get_method
from afcl.owner_only import write_whole
from afcl.privacy.ledger import Ledger
from afcl.privacy.levels import PLAIN, parse_level
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import Announcement, announce
from afcl.runtime.live.facts import read_facts
from afcl.runtime.live.membership import (
    DONE,
    JOINED,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.requirements import needs_all_rows
from afcl.runtime.results import (
    RESULT,
    write_labels,
    write_result_file,
)
from afcl.runtime.site import ODD, Charge, Site, settled, shown_rows

#: Its method's memory.
MEMORY = "memory.bin"
#: What only this site knows.
SECRET = "secret.bin"
#: The site's labels, a line for every row of its files.
LABELED = "labels.csv"
#: What a site has spent, beside its results unless it names another file.
LEDGER = "ledger.json"


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
    run = _run_of(asked)
    if member.run not in ("", run):
        raise RejectedMessage(f"{member.name} takes part in another run")
    if isinstance(asked, Refusal):
        keep_membership(
            folder, replace(member, run=run, state=REFUSED, reason=asked.reason)
        )
        return encode(Noted(run))
    source = member.open(_whole(asked)).tables[0]
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
    check_terms(member, asked.terms)
    secret, charge = keep_secret(folder), _account(folder, member, found)
    return _work(folder, Site(source.rows, source.columns, secret, charge), request)


def _run_of(asked: Any) -> str:
    """Return the run that a request belongs to."""
    if isinstance(asked, AskHello | AskStep | Finish):
        return asked.terms.run
    if isinstance(asked, AskAnnouncement | Refusal):
        return asked.run
    raise RejectedMessage(f"a site cannot answer a {type(asked).__name__}")


def _whole(asked: Any) -> str:
    """Name what needs all rows in memory to be answered, if something does."""
    if isinstance(asked, AskAnnouncement):
        return "a privacy level with groups" if asked.group > 1 else ""
    if not isinstance(asked, AskHello | AskStep | Finish):
        return ""
    method, parameters = settled(asked.terms)
    return needs_all_rows(method.name, method.disclosure(parameters).level)


def _announcement(
    member: Membership, source: SiteTable, asked: AskAnnouncement
) -> Announcement:
    """Return what the site says of itself."""
    if not isinstance(source, Table):
        # Only the number of rows is asked of these, and extremes and medians of what
        # is shown: three rows say them.
        ranges = source.ranges()
        rows = np.broadcast_to(ranges.low, source.shape)
        shown = np.stack([ranges.low, source.medians(), ranges.high])
    else:
        rows = source.values
        group = max(asked.group, parse_level(member.privacy).group)
        shown = shown_rows(rows, group)
    return announce(
        member.name, source.columns, rows, member.units, asked.extremes, shown
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
    method, parameters = settled(terms)
    level, least = method.disclosure(parameters)
    if least is not None and least < member.min_cell:
        raise RejectedMessage(
            f"{member.name} sends no cells of fewer than {member.min_cell} rows: join "
            f"with --min-cell {least} to allow it"
        )
    insists = parse_level(member.privacy)
    if level and parse_level(level).scheme == PLAIN:
        raise RejectedMessage(
            f"{member.name} adds nothing up unmasked: {level} is for simulations"
        )
    if level and not insists.allows(parse_level(level)):
        raise RejectedMessage(
            f"{member.name} insists on privacy {insists}, this run is {level}: join "
            f"with --privacy '{level}' to allow it"
        )


def _work(folder: Path, site: Site, request: bytes) -> bytes:
    """Answer with the memory of the last time, and keep the new one."""
    kept = folder / MEMORY
    if kept.is_file():
        site.memory = decode(kept.read_bytes())
    reply = site.answer(request)
    if site.memory is not None:
        write_whole(kept, encode(site.memory))
    return reply


def _finish(folder: Path, member: Membership, source: SiteTable, asked: Finish) -> None:
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

    client = asked.terms.client
    label = partial(method.label, clustering, memory=known, client=client)
    site = Site(source.rows, source.columns)
    if isinstance(source, Table):
        (labels,) = counted([label(site.scaled(asked.terms))])
        write_labels(folder / LABELED, source.in_input_order(labels))
    else:
        parts = counted(site.agreed(asked.terms).map(label))
        write_labels(folder / LABELED, source.in_input_order(parts))
    result = read_facts(asked.facts, asked.terms.columns)
    result["site"] = {
        "name": member.name,
        "rows": int(sizes.sum()),
        "sizes": [int(size) for size in sizes],
    }
    write_result_file(folder, result, private=True)
    keep_membership(folder, replace(member, state=DONE))
