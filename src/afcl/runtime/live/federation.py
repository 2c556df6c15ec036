# SPDX-License-Identifier: Apache-2.0
"""What belongs to a federation and not to one of its runs: who its members are.

A federation's folder serves many runs. ``enrolled/`` has the keys that may join;
``federation.json`` keeps for good which key a name belongs to, which keys were revoked,
and which number a member had in which run; ``tls/`` has the certificates. A run that is
given no such folder is its own federation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afcl.exceptions import InputError, RejectedMessage
from afcl.owner_only import make_folder
from afcl.privacy.files import alone, write_private
from afcl.privacy.identity import key_fingerprint
from afcl.runtime.live.announcement import check_name
from afcl.runtime.live.enrolment import (
    ENROLLED,
    SUFFIX,
    EnrolledKey,
    Enrolment,
    enrolled,
    enrolled_files,
)

#: The list of members, in the federation's folder.
FEDERATION = "federation.json"
#: Version of its format.
FORMAT = 1


@dataclass(frozen=True)
class Member:
    """A key that was enrolled, and the name that belongs to it.

    Attributes
    ----------
    name, identity, fingerprint
        What the key was enrolled as, the key, and what people compare of it.
    called
        The name under which its site was first let in; empty: it was not yet.
    clients
        The numbers it had, by run.
    revoked
        When the key was taken away; empty: it was not.
    max_rows
        Rows that its site may declare in a run, as agreed; 0: as many as the run lets
        everybody.
    """

    name: str
    identity: str
    fingerprint: str
    called: str = ""
    clients: Mapping[str, int] = field(default_factory=dict)
    revoked: str = ""
    max_rows: int = 0

    @property
    def site(self) -> str:
        """What people know the site by."""
        return self.called or self.name

    @property
    def names(self) -> set[str]:
        """The names that nobody else may come under."""
        return {self.name, self.site}


class Federation:
    """The members of a federation, as its folder has them.

    Several processes may look at it and change it; every change is whole and lasts.

    Parameters
    ----------
    folder : Path
        The federation's, which need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FEDERATION
        self._members: tuple[Member, ...] = ()
        self._seen: tuple[int, ...] = ()
        self._enrolment = Enrolment((), {})
        self._seen_files: tuple[object, ...] = ()

    # -------------------------------------------------------------- who they are

    def members(self) -> tuple[Member, ...]:
        """Return every key that was ever enrolled, in that order."""
        seen = _signature(self._path)
        if seen != self._seen:
            self._members, self._seen = _read(self._path), seen
        return self._members

    def owner(self, name: str) -> Member | None:
        """Return whose a name is, None if it is nobody's yet."""
        return _owner(self.members(), name)

    def of_key(self, identity: str) -> Member | None:
        """Return the member with a key."""
        found = (m for m in self.members() if m.identity == identity)
        return next(found, None)

    def enrolment(self) -> Enrolment:
        """Return the keys that may join, and the files that are left aside."""
        files = enrolled_files(self.folder)
        seen = (self.members(), *((path, _signature(path)) for path in files))
        if seen != self._seen_files:
            self._enrolment, self._seen_files = self._allowed(), seen
        return self._enrolment

    def _allowed(self) -> Enrolment:
        """Read the keys, and leave aside what may not join."""
        found = enrolled(self.folder)
        keys: dict[str, EnrolledKey] = {}
        skipped = dict(found.skipped)
        for key in found.keys:
            why = self._objection(key)
            if why is None and key.identity in keys:
                why = f"the same key as {keys[key.identity].name}"
            if why is None:
                keys[key.identity] = key
            else:
                skipped[key.path] = why
        return Enrolment(tuple(keys.values()), skipped)

    def _objection(self, key: EnrolledKey) -> str | None:
        """Return why a key may not join under its name, None if it may."""
        known, owner = self.of_key(key.identity), self.owner(key.name)
        if known is not None and known.revoked:
            return "this key was revoked"
        if known is not None and known.name != key.name:
            return f"this key belongs to {known.name}"
        if owner is not None and owner.identity != key.identity:
            return f"the name {key.name} belongs to another key"
        return None

    # -------------------------------------------------------------- changes

    def enrol(
        self,
        keys: Sequence[EnrolledKey],
        replacing: bool = False,
        max_rows: int | None = None,
    ) -> None:
        """Let sites join from now on, all of these or none.

        Parameters
        ----------
        keys : sequence of EnrolledKey
            The keys by the names they shall belong to, wherever their files are.
        replacing : bool
            Whether a name may go over from the key it belongs to, which is revoked.
        max_rows : int, optional
            Rows that each of these sites may declare; None: as agreed before, if so.

        Raises
        ------
        InputError
            If one of them may not: with its name, and what to do.
        """
        named = [key.name for key in keys]
        twice = [name for name in dict.fromkeys(named) if named.count(name) > 1]
        if twice:
            raise InputError(f"two keys for {twice[0]}: give every site one")
        with alone(self._path):
            members = self.members()
            for key in keys:
                members = _with_key(members, key, replacing)
                if max_rows is not None:
                    members = _capped(members, key, max_rows)
            folder = self.folder / ENROLLED
            make_folder(folder)
            for key in keys:
                part = folder / f".{key.name}{SUFFIX}"
                write_private(part, key.path.read_bytes())
                os.replace(part, folder / f"{key.name}{SUFFIX}")
            self._write(members)
            self._remove_revoked()

    def revoke(self, name: str) -> Member:
        """Take a name's key away for good; return who it was."""
        with alone(self._path):
            self._bind_files()
            owner = self.owner(name)
            if owner is None or owner.revoked:
                left = [m.site for m in self.members() if not m.revoked]
                known = ", ".join(left) or "nobody"
                raise InputError(f"no key of {name!r} here: there is {known}")
            gone = replace(owner, revoked=_now())
            self._write(_exchanged(self.members(), gone))
            self._remove_revoked()
        return gone

    def _remove_revoked(self) -> None:
        """Delete the files of keys that were revoked."""
        gone = {member.identity for member in self.members() if member.revoked}
        for key in enrolled(self.folder).keys:
            if key.identity in gone:
                key.path.unlink(missing_ok=True)

    def bind(self) -> Enrolment:
        """Return the keys that may join, whose names are theirs for good from now on.

        Also those of files that somebody has put into the folder by hand.
        """
        if any(self.of_key(key.identity) is None for key in self.enrolment().keys):
            with alone(self._path):
                self._bind_files()
        return self.enrolment()

    def _bind_files(self) -> None:
        members = before = self.members()
        for key in self.enrolment().keys:
            members = _with_key(members, key, replacing=False)
        if members != before:
            self._write(members)

    def let_in(self, run: str, name: str, identity: str, client: int) -> None:
        """Remember under which name and number a member was let into a run."""
        self.bind()
        with alone(self._path):
            member = self.of_key(identity)
            if member is None:
                return
            clients = {**member.clients, run: client}
            changed = replace(member, called=member.called or name, clients=clients)
            if changed != member:
                self._write(_exchanged(self.members(), changed))

    def _write(self, members: tuple[Member, ...]) -> None:
        content = {"format": FORMAT, "members": [asdict(m) for m in members]}
        try:
            write_private(self._path, (json.dumps(content, indent=2) + "\n").encode())
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be written: {error.strerror or error}"
            ) from None


def _with_key(
    members: tuple[Member, ...], key: EnrolledKey, replacing: bool
) -> tuple[Member, ...]:
    """Return the members with a key among them, or refuse it by name."""
    _check_name(key.name)
    known = next((m for m in members if m.identity == key.identity), None)
    if known is not None and known.revoked:
        raise InputError(
            f"the key of {key.name} was revoked: have the site make a new one with "
            "'afcl keygen'"
        )
    if known is not None:
        if key.name == known.name:
            return members
        raise InputError(
            f"the key for {key.name} belongs to {known.name}: every site needs a key "
            "of its own"
        )
    owner = _owner(members, key.name)
    if owner is not None and not replacing:
        gone = " revoked" if owner.revoked else ""
        raise InputError(
            f"the name {key.name} belongs to the{gone} key {owner.fingerprint}: if the "
            "site has a new one, ask its people, then type --replace"
        )
    if owner is not None and not owner.revoked:
        members = _exchanged(members, replace(owner, revoked=_now()))
    made = Member(key.name, key.identity, key_fingerprint(key.identity))
    if owner is not None:  # what was agreed was agreed with the site
        made = replace(made, called=owner.called, max_rows=owner.max_rows)
    return (*members, made)


def _capped(
    members: tuple[Member, ...], key: EnrolledKey, max_rows: int
) -> tuple[Member, ...]:
    """Return the members, of whom the owner of a key has so many rows at most."""
    (own,) = (m for m in members if m.identity == key.identity)
    return _exchanged(members, replace(own, max_rows=max_rows))


def _owner(members: tuple[Member, ...], name: str) -> Member | None:
    """Return the last key that a name was given to."""
    return next((m for m in reversed(members) if name in m.names), None)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except RejectedMessage as error:
        raise InputError(f"{name!r}: {error}") from None


def _exchanged(members: tuple[Member, ...], changed: Member) -> tuple[Member, ...]:
    """Return the members with one of them as it is now."""
    same = changed.identity
    return tuple(changed if m.identity == same else m for m in members)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _signature(path: Path) -> tuple[int, ...]:
    """Return what differs when a file was written anew, () if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _read(path: Path) -> tuple[Member, ...]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
        return tuple(Member(**fields) for fields in content["members"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read: restore it from a copy, for it says which key a "
            f"name belongs to and which were revoked ({error})"
        ) from None
