# SPDX-License-Identifier: Apache-2.0
"""A site of a live run at work: what it answers, and what it writes for itself.

An engine may start a new process for every request, so that everything a site knows is
in its folder: `site.json` (what it was given when it joined, and how far it is) and
`memory.bin` (its method's memory). Rows and labels never leave the site.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from afcl.core.messages import refuse_unless
from afcl.core.params import MOST_SEEDS, DefaultParams
from afcl.core.protocol import Disclosure
from afcl.core.terms import (
    CLEAR,
    NAMES,
    Aside,
    AskAnnouncement,
    AskHello,
    AskNews,
    AskStep,
    Finish,
    Noted,
    Refusal,
    Terms,
)
from afcl.data.sites import SiteTable
from afcl.exceptions import AfclError, RejectedMessage
from afcl.owner_only import write_whole
from afcl.privacy.files import alone, kept_secret
from afcl.privacy.ledger import DataSet, Ledger
from afcl.privacy.levels import PLAIN, parse_level
from afcl.runtime.agreement import quoted
from afcl.runtime.arrays import moved
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.answers import remember, remembered
from afcl.runtime.live.declining import (
    Declined,
    goes_home_empty,
    note_answer,
    note_hindrance,
)
from afcl.runtime.live.introduction import introduction, signed
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
from afcl.runtime.live.sent import record_answer
from afcl.runtime.live.staying import news, place_for, publish
from afcl.runtime.live.take_home import MEMORY, take_home
from afcl.runtime.live.taking_part import given_rows, standing
from afcl.runtime.live.views import VIEWS, Views, home_folder
from afcl.runtime.requirements import needs_all_rows
from afcl.runtime.site import Site, digest_of, odd_refused, settled

#: What only this site knows.
SECRET = "secret.bin"
#: What a site has spent, in its home unless it names another file.
LEDGER = "ledger.json"


def answer(folder: Path, request: bytes) -> bytes:
    """Answer one request of the coordinator, from what is in the site's folder.

    One at a time, so that two requests at once cannot both be the last one allowed. One
    that makes no sense is refused in one line. What leaves is written down before.
    """
    with alone(folder / SITE):
        member = open_membership(folder)
        with odd_refused():
            reply = _answer_at(folder, member, decode(request), request)
            record_answer(folder, _home(member), member, request, reply)
            return reply


def _answer_at(folder: Path, member: Membership, asked: Any, request: bytes) -> bytes:
    """Answer where the run of a request belongs: see :mod:`.staying`."""
    if isinstance(asked, AskNews):
        latest = news(folder, member, asked.run)
        if not asked.over:
            return encode(latest)
        # The process that watches the folder ends the site's work.
        keep_membership(folder, replace(member, state=DONE))
        return encode(Noted(asked.run))
    run = _run_of(asked)
    # Every answer of a federation has a folder: one run's limits are not another's.
    place = place_for(folder, member, run, isinstance(asked, AskAnnouncement))
    try:
        reply = _answer(*place, asked, request)
    except AfclError as error:
        # For who goes home empty, and for the people who look why.
        note_hindrance(place.folder, asked, error)
        raise
    if isinstance(asked, Finish):
        publish(folder, place, run)
    return reply


def _left_out(member: Membership, asked: Any) -> Membership | None:
    """Return what the site is from now on if it was refused or gets no labels."""
    if isinstance(asked, Refusal):
        return replace(member, state=REFUSED, reason=asked.reason)
    if isinstance(asked, Finish) and goes_home_empty(member):
        return replace(member, state=DECLINED, reason=member.hindered)
    return None


def _answer(folder: Path, member: Membership, asked: Any, request: bytes) -> bytes:
    run = _run_of(asked)
    if member.run not in ("", run):
        raise RejectedMessage(f"{member.name} takes part in another run")
    left = _left_out(member, asked)
    if left is not None:
        keep_membership(folder, replace(left, run=run))
        return encode(Noted(run))
    # Before all checks: what was said once is said again, to the byte, and tells
    # nothing.
    known = _said_before(folder, member, asked, request)
    if known is not None:
        return known
    pinned = _among_members(_pinned(member, asked, request), asked)
    group = _group_of(asked)
    _known_views(pinned).one_size(group)
    own = member.own_rows(_whole(asked))
    source = own.source
    found = source.fingerprint()
    # Changed rows would be told twice in one run, and their difference is single rows.
    if member.fingerprint not in ("", found):
        raise RejectedMessage(f"the rows of {member.name} have changed during the run")
    rows = member.rows or source.unordered()
    joined = replace(pinned, run=run, fingerprint=found, rows=rows)
    if isinstance(asked, AskAnnouncement):
        joined = replace(joined, state=JOINED, max_rows=asked.max_rows or 0)
    # Before anything is said: what comes next is measured against it.
    keep_membership(folder, joined)
    if isinstance(asked, Finish):
        take_home(folder, joined, own, asked)
        return encode(Noted(run))
    views = _views(folder, joined, source)
    if isinstance(asked, AskAnnouncement):
        announcement = introduction(joined, own, asked, views)
        return encode(signed(joined, asked, announcement))
    secret = kept_secret(folder / SECRET)
    views = replace(views, within=_within(asked.terms), run=_telling(run, secret))
    method, parameters = settled(asked.terms)
    in_terms = given_rows(joined, own, asked.terms)
    if isinstance(asked, AskHello):
        joined, speaks = standing(joined, in_terms, asked.terms)
        keep_membership(folder, joined)
        if not speaks:
            return encode(Aside(run))
    views.one_size(group)
    if not (method.disclosure(parameters).once or joined.described):
        views.note("rows")
    (rows,) = moved([in_terms.rows], member.device)
    site = Site(rows, in_terms.columns, secret, views, member.gaps)
    site.memory = _memory(folder)
    reply = site.answer(request)
    note_answer(folder, joined, asked, reply)
    if member.key and isinstance(asked, AskHello):
        reply = with_proof(joined, asked.terms, reply)
    # Before it leaves: a crash now must not make it answer anew, with other noise.
    memory = b"" if site.memory is None else encode(site.memory)
    remember(folder, joined, request, reply, memory)
    _keep_memory(folder, memory)
    return reply


def _said_before(
    folder: Path, member: Membership, asked: Any, request: bytes
) -> bytes | None:
    """Return what was answered to this request before, whatever the rows are now."""
    known = remembered(folder, member, request) if member.fingerprint else None
    if known is None or not isinstance(asked, AskHello | AskStep):
        return None
    reply, memory = known
    # The last answer may have been cut off before its memory was kept.
    # Only of the last one: an older answer's memory would undo what came since.
    if not member.steps or member.steps[-1] == hashlib.sha256(request).hexdigest():
        _keep_memory(folder, memory)
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


# ------------------------------------------------------- what it holds itself to


def _pinned(member: Membership, asked: Any, request: bytes) -> Membership:
    """Return what the site is held to from here on, or refuse anything else.

    Nothing of the rows is read for it.
    """
    if isinstance(asked, AskAnnouncement):
        ways = ", ".join(NAMES)
        # Of a way that this version does not know it cannot promise anything.
        refuse_unless(asked.names in NAMES, f"names of levels travel as one of {ways}")
        wanted = f"extremes: {asked.extremes}, groups of {asked.group}"
        if asked.categories or asked.names != CLEAR:
            kinds = encode((asked.names, asked.categories))
            wanted += f", categories {hashlib.sha256(kinds).hexdigest()[:16]}"
        # Extremes with and without groups, one after the other, would tell single rows.
        if member.asked not in ("", wanted):
            raise RejectedMessage(
                f"{member.name} was asked to announce itself in another way before"
            )
        return replace(member, asked=wanted)
    # Labels tell nobody anything: the owner may want them whatever the run was.
    if not (isinstance(asked, Finish) and member.labels_anyway):
        check_terms(member, asked.terms)
    terms = digest_of(asked.terms)
    # Another box or other columns are another view of the same rows (0027).
    if member.terms not in ("", terms):
        raise RejectedMessage(
            f"{member.name} works under other terms in this run: they cannot be changed"
        )
    member = replace(member, terms=terms)
    if not isinstance(asked, AskStep):
        return member
    member = _in_cohort(member, asked)
    step = hashlib.sha256(request).hexdigest()
    # Asked again, it is the same step.
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
        raise Declined(
            f"{member.name} is summed with {member.cohort - 1} others at least, this "
            f"cohort has {len(own.members)} members: join with --cohort "
            f"{len(own.members)} to allow it"
        )
    # By their keys too: a name can be anybody.
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


def _group_of(asked: Any) -> int:
    """Return how many rows the groups have that are asked for; 0: there are none."""
    if not isinstance(asked, AskHello | AskStep):
        return 0
    method, parameters = settled(asked.terms)
    level = method.disclosure(parameters).level
    return parse_level(level).group if level else 0


def _home(member: Membership) -> Path:
    return Path(member.home) if member.home else home_folder()


def _within(terms: Terms) -> str:
    """Name columns and box: under others, views are other views."""
    content = encode((terms.columns, terms.box, *(terms.categories or ())))
    return f"columns and box {hashlib.sha256(content).hexdigest()[:16]}"


def _telling(run: str, secret: bytes) -> str:
    """Name a run as it is told to in this folder.

    Terms and steps are pinned in the folder: in another one the same run could ask for
    as much again. So that is a further run in the account, whatever it is called.
    """
    mark = hmac.digest(secret, b"account", "sha256").hex()[:12]
    return f"{run}, folder {mark}"


def _views_of(member: Membership, data: DataSet) -> Views:
    """Return what remembers what was said of a data set."""
    home = _home(member)
    path = Path(member.ledger) if member.ledger else home / LEDGER
    ledger = Ledger(path, member.budget, runs=member.runs)
    return Views(home / VIEWS, ledger, data, member.name, member.run)


def _known_views(member: Membership) -> Views:
    """Return the same without a look at the rows, by what they were in this run."""
    known = tuple(each for each in (member.rows, member.fingerprint) if each)
    return _views_of(member, DataSet(member.dataset, known))


def _views(folder: Path, member: Membership, source: SiteTable) -> Views:
    """Return what remembers what was said of these rows, in this run and before."""
    name = member.dataset or f"{member.data} {' '.join(sorted(source.columns))}"
    # A file is one account, whichever of its columns are read.
    place = "" if member.dataset else member.data
    data = DataSet(name, (member.rows, member.fingerprint), place)
    views = _views_of(member, data)
    ledger, older = views.ledger, folder / LEDGER
    if older.is_file() and older != ledger.path:
        ledger.adopt(older)
        # Once: from here on there is one account.
        older.rename(older.with_name(f"{LEDGER}.moved"))
    known = ledger.account(data)
    other = bool(known.rows) and set(data.rows).isdisjoint(known.rows)
    # Other columns of a file are other rows; groups of them differ by single ones.
    if other and not member.changed and (name in known.names or known.in_groups):
        raise RejectedMessage(
            f"the rows of {member.name} have changed since something was said of them, "
            "or others of their columns are read: join with --changed to describe them "
            "anew, which tells more of the rows that came and went"
        )
    return views


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
    disclosure = method.disclosure(parameters)
    level, least = disclosure.level, disclosure.min_cell
    if disclosure.holders is not None and disclosure.holders < member.holders:
        raise Declined(
            f"{member.name} gives no sums of groups that fewer than {member.holders} "
            f"sites hold: join with --holders {disclosure.holders} to allow it"
        )
    if least is not None and least < member.min_cell:
        raise Declined(
            f"{member.name} sends no cells of fewer than {member.min_cell} rows: join "
            f"with --min-cell {least} to allow it"
        )
    _check_amounts(member, disclosure)
    insists = parse_level(member.privacy)
    # Unmasked sums are for simulations: a real server would see every site's own.
    if level and parse_level(level).scheme == PLAIN:
        raise Declined(
            f"{member.name} adds nothing up unmasked: {level} is for simulations"
        )
    if level and not insists.allows(parse_level(level)):
        raise Declined(
            f"{member.name} insists on privacy {insists}, this run is {level}: join "
            f"with --privacy '{level}' to allow it"
        )


def _check_amounts(member: Membership, told: Disclosure) -> None:
    """Refuse terms that let the coordinator ask for more than the method needs.

    Terms are the coordinator's to write: what they allow must not be without end.
    """
    usual = DefaultParams()
    limits = (
        ("steps", told.steps, member.contacts),
        ("seeds in a step", told.seeds, MOST_SEEDS),
        ("levels in a step", told.levels, usual.candidates),
        ("sums", told.passes, usual.passes),
    )
    for what, asked, most in limits:
        if asked is not None and asked > most:
            raise Declined(
                f"{member.name} answers {most} {what} at most, this run may ask for "
                f"{asked}: "
                + (
                    f"join with --contacts {asked} to allow it"
                    if what == "steps"
                    else "have it served with the usual settings"
                )
            )


def _memory(folder: Path) -> Any:
    """Return what the method remembers of the last time, None if it does not."""
    path = folder / MEMORY
    return decode(path.read_bytes()) if path.is_file() else None


def _keep_memory(folder: Path, memory: bytes) -> None:
    if memory:
        write_whole(folder / MEMORY, memory)
