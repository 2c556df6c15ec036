# SPDX-License-Identifier: Apache-2.0
"""A site of a live run at work: what it answers, and what it writes for itself.

An engine may start a new process for every request, so that everything a site knows is
in its folder: `site.json` (what it was given when it joined, and how far it is) and
`memory.bin` (its method's memory). Rows and labels never leave the site.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
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
from afcl.exceptions import AfclError, RejectedMessage
from afcl.methods import get_method
from afcl.owner_only import write_whole
from afcl.privacy.files import alone, kept_secret
from afcl.privacy.identity import announcement, identity_of, private_key, sign
from afcl.privacy.ledger import DataSet, Ledger
from afcl.privacy.levels import PLAIN, parse_level
from afcl.runtime.agreement import quoted
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import Announcement, announce, plain_units
from afcl.runtime.live.declining import (
    Declined,
    goes_home_empty,
    note_answer,
    note_hindrance,
)
from afcl.runtime.live.facts import read_facts
from afcl.runtime.live.keyring import acquainted, task_of, with_proof
from afcl.runtime.live.membership import (
    DECLINED,
    DONE,
    JOINED,
    REFUSED,
    SITE,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.views import VIEWS, Views, home_folder
from afcl.runtime.requirements import needs_all_rows
from afcl.runtime.results import (
    RESULT,
    write_labels,
    write_result_file,
)
from afcl.runtime.site import ODD, Site, digest_of, settled, shown_rows

#: Its method's memory.
MEMORY = "memory.bin"
#: What only this site knows.
SECRET = "secret.bin"
#: The site's labels, a line for every row of its files.
LABELED = "labels.csv"
#: What a site has spent, in its home unless it names another file.
LEDGER = "ledger.json"


def answer(folder: Path, request: bytes) -> bytes:
    """Answer one request of the coordinator, from what is in the site's folder.

    One at a time, so that two requests at once cannot both be the last one allowed. One
    that makes no sense is refused in one line.
    """
    with alone(folder / SITE):
        member, asked = open_membership(folder), None
        try:
            asked = decode(request)
            return _answer(folder, member, asked, request)
        except AfclError as error:
            note_hindrance(folder, asked, error)
            raise
        except ODD as error:
            raise RejectedMessage(
                f"this request cannot be answered: {error}"
            ) from error


def _answer(folder: Path, member: Membership, asked: Any, request: bytes) -> bytes:
    run = _run_of(asked)
    if member.run not in ("", run):
        raise RejectedMessage(f"{member.name} takes part in another run")
    if isinstance(asked, Refusal):
        keep_membership(
            folder, replace(member, run=run, state=REFUSED, reason=asked.reason)
        )
        return encode(Noted(run))
    if isinstance(asked, Finish) and goes_home_empty(member):
        left_out = replace(member, run=run, state=DECLINED, reason=member.hindered)
        keep_membership(folder, left_out)
        return encode(Noted(run))
    pinned = _among_members(_pinned(member, asked, request), asked)
    source = member.open(_whole(asked)).tables[0]
    found = source.fingerprint()
    if member.fingerprint not in ("", found):
        raise RejectedMessage(f"the rows of {member.name} have changed during the run")
    rows = member.rows or source.unordered()
    joined = replace(pinned, run=run, fingerprint=found, rows=rows)
    if isinstance(asked, AskAnnouncement):
        joined = replace(joined, state=JOINED)
    # Before anything is said: what comes next is measured against it.
    keep_membership(folder, joined)
    if isinstance(asked, Finish):
        _finish(folder, joined, source, asked)
        return encode(Noted(run))
    views = _views(folder, joined, source)
    if isinstance(asked, AskAnnouncement):
        said = _announcement(joined, source, asked, views)
        return encode(_signed(joined, asked, said))
    views = replace(views, within=_within(asked.terms))
    method, parameters = settled(asked.terms)
    if not method.disclosure(parameters).once:
        views.note("rows")
    secret = kept_secret(folder / SECRET)
    site = Site(source.rows, source.columns, secret, views, member.gaps)
    reply = _work(folder, site, request)
    note_answer(folder, joined, asked, reply)
    if member.key and isinstance(asked, AskHello):
        return with_proof(joined, asked.terms, reply)
    return reply


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
    member: Membership, source: SiteTable, asked: AskAnnouncement, views: Views
) -> Announcement:
    """Return what the site says of itself, no more than its level allows."""
    insists = parse_level(member.privacy)
    if asked.extremes and insists.private:
        raise RejectedMessage(
            f"{member.name} takes part at {insists} and tells no extremes: give public "
            "bounds (--ranges)"
        )
    group = max(asked.group, insists.group)

    def make() -> Announcement:
        rows, shown = _shown(source, group)
        given = member.name, source.columns, rows, member.units, asked.extremes, shown
        return announce(*given)

    if not asked.extremes:
        return make()
    of = f"groups of {group} rows" if group > 1 else "rows"
    kept = replace(views, run="")(f"extremes and medians of {of}", make)
    units = plain_units(source.columns, member.units)
    return replace(kept, name=member.name, units=units)


def _signed(
    member: Membership, asked: AskAnnouncement, said: Announcement
) -> Announcement:
    """Return the announcement that shows by the site's key that the name is its own."""
    if not member.key:
        return said
    private = private_key(Path(member.key))
    message = announcement(asked.run, asked.challenge, member.name)
    signature = sign(private, message)
    return replace(said, identity=identity_of(private), signature=signature)


def _shown(source: SiteTable, group: int) -> tuple[Floats, Floats]:
    """Return rows, and what stands for them where extremes and medians are told."""
    if isinstance(source, Table):
        return source.values, shown_rows(source.values, group)
    # Only the number of rows is asked of these, and extremes and medians of what is
    # shown: three rows say them.
    ranges = source.ranges()
    rows = np.broadcast_to(ranges.low, source.shape)
    return rows, np.stack([ranges.low, source.medians(), ranges.high])


# ------------------------------------------------------- what it holds itself to


def _pinned(member: Membership, asked: Any, request: bytes) -> Membership:
    """Return what the site is held to from here on, or refuse anything else.

    Nothing of the rows is read for it.
    """
    if isinstance(asked, AskAnnouncement):
        wanted = f"extremes: {asked.extremes}, groups of {asked.group}"
        if member.asked not in ("", wanted):
            raise RejectedMessage(
                f"{member.name} was asked to announce itself in another way before"
            )
        return replace(member, asked=wanted)
    if not (isinstance(asked, Finish) and member.labels_anyway):
        check_terms(member, asked.terms)
    terms = digest_of(asked.terms)
    if member.terms not in ("", terms):
        raise RejectedMessage(
            f"{member.name} works under other terms in this run: they cannot be changed"
        )
    member = replace(member, terms=terms)
    if not isinstance(asked, AskStep):
        return member
    member = _in_cohort(member, asked)
    step = hashlib.sha256(request).hexdigest()
    if step in member.steps:
        return member
    method, parameters = settled(asked.terms)
    most = method.disclosure(parameters).steps
    if most is not None and len(member.steps) >= most:
        raise RejectedMessage(
            f"{member.name} has answered {most} times in this run, which is all that "
            "was agreed"
        )
    return replace(member, steps=(*member.steps, step))


def _in_cohort(member: Membership, asked: AskStep) -> Membership:
    """Return the site that knows its cohort; it refuses others than it wants."""
    own = task_of(asked)
    if own is None:
        return member
    if len(own.members) < member.cohort:
        raise RejectedMessage(
            f"{member.name} is summed with {member.cohort - 1} others at least, this "
            f"cohort has {len(own.members)} members: join with --cohort "
            f"{len(own.members)} to allow it"
        )
    content = f"{own.members} {own.keys}".encode()
    summed = hashlib.sha256(content).hexdigest()
    if member.one_cohort and member.summed not in ("", summed):
        raise RejectedMessage(
            f"{member.name} is summed with the same others to the end: leave out "
            "--one-cohort to go on without who has dropped out"
        )
    return replace(member, summed=summed)


def _among_members(member: Membership, asked: Any) -> Membership:
    """Return the site that knows whom it is summed with."""
    task = task_of(asked)
    if task is None:
        return member
    return acquainted(member, _home(member), asked.terms, task)


def _home(member: Membership) -> Path:
    return Path(member.home) if member.home else home_folder()


def _within(terms: Terms) -> str:
    """Name columns and box: under others, views are other views."""
    content = encode((terms.columns, terms.box))
    return f"columns and box {hashlib.sha256(content).hexdigest()[:16]}"


def _views(folder: Path, member: Membership, source: SiteTable) -> Views:
    """Return what remembers what was said of these rows, in this run and before."""
    home = _home(member)
    path = Path(member.ledger) if member.ledger else home / LEDGER
    ledger = Ledger(path, member.budget, runs=member.runs)
    older = folder / LEDGER
    if older.is_file() and older != path:
        ledger.adopt(older)
        older.rename(older.with_name(f"{LEDGER}.moved"))
    name = member.dataset or f"{member.data} {' '.join(sorted(source.columns))}"
    data = DataSet(name, (member.rows, member.fingerprint))
    known = ledger.account(data).rows
    if known and not member.changed and set(data.rows).isdisjoint(known):
        raise RejectedMessage(
            f"the rows of {member.name} have changed since something was said of them: "
            "join with --changed to describe them anew, which tells more of the rows "
            "that came and went"
        )
    return Views(home / VIEWS, ledger, data, member.name, member.run)


def check_terms(member: Membership, terms: Terms) -> None:
    """Refuse to say more than the site has promised to say."""
    if terms.method != member.method:
        raise Declined(
            f"{member.name} takes part in {member.method} only, not in {terms.method}: "
            f"join with --method {terms.method} to allow it"
        )
    twice = [name for name, n in Counter(terms.columns).items() if n > 1]
    if twice:
        raise Declined(
            f"{member.name} gives every column once, not {quoted(twice)} several times"
        )
    method, parameters = settled(terms)
    told = method.disclosure(parameters)
    level, least = told.level, told.min_cell
    if told.holders is not None and told.holders < member.holders:
        raise Declined(
            f"{member.name} gives no sums of groups that fewer than {member.holders} "
            f"sites hold: join with --holders {told.holders} to allow it"
        )
    if least is not None and least < member.min_cell:
        raise Declined(
            f"{member.name} sends no cells of fewer than {member.min_cell} rows: join "
            f"with --min-cell {least} to allow it"
        )
    insists = parse_level(member.privacy)
    if level and parse_level(level).scheme == PLAIN:
        raise Declined(
            f"{member.name} adds nothing up unmasked: {level} is for simulations"
        )
    if level and not insists.allows(parse_level(level)):
        raise Declined(
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
    site = Site(source.rows, source.columns, missing=member.gaps)
    if isinstance(source, Table):
        rows = site.to_label(asked.terms, clustering.centers)
        (labels,) = counted([label(rows.table())])
        write_labels(folder / LABELED, source.in_input_order(labels), source.ids)
    else:
        parts = counted(site.agreed(asked.terms).map(label))
        write_labels(folder / LABELED, source.in_input_order(parts), source.ids)
    result = read_facts(asked.facts, asked.terms.columns)
    result["site"] = {
        "name": member.name,
        "rows": int(sizes.sum()),
        "sizes": [int(size) for size in sizes],
        "members": list(member.met),
    }
    if member.hindered and not member.described:
        result["site"]["took_no_part"] = member.hindered
    write_result_file(folder, result, private=True)
    keep_membership(folder, replace(member, state=DONE))
