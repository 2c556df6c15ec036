# SPDX-License-Identifier: Apache-2.0
"""Keeps a running engine up to date with the keys of its federation.

``afcl enrol`` and ``afcl revoke`` change a folder. Whoever serves a run looks there
every so often, and has the engine let in who is new and put out who was revoked. A file
that cannot be used is named once and hinders nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from afcl.exceptions import InputError
from afcl.privacy.identity import key_fingerprint
from afcl.runtime.live.door import addresses, forget_address, note_address
from afcl.runtime.live.enrolment import EnrolledKey
from afcl.runtime.live.federation import Federation, Member

#: Seconds in which a site that was put out can hear why, before its line is cut.
LAST_WORD = 30.0
#: Seconds after which the engine is asked once more for what it has refused.
AGAIN = 60.0
#: Most lines about keys that were not let in: anybody can make new ones.
STRANGERS = 100


class KeyStore(Protocol):
    """What is asked of the engine: a part of :class:`~.engine.Server`."""

    def enrol(self, public_key: Path) -> int | None:
        """Let the owner of a key join; return its address, if that is new."""
        ...

    def revoke(self, address: int) -> None:
        """Let whoever has this address join no more."""
        ...

    def turned_away(self) -> list[str]:
        """Return the keys that were not let in since the last call."""
        ...


class Registrar:
    """Registers keys with the engine of a run, and takes them away.

    Parameters
    ----------
    federation : Federation
    folder : Path
        The run's.
    server : KeyStore
        The engine.
    say : callable
        Told in a line each what has happened.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        server: KeyStore,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation, self._folder, self._server = federation, folder, server
        self._say, self._clock = say, clock
        #: Keys that the engine knows; those that were put out, and when.
        self._known: set[str] = set()
        self._out: dict[str, float] = {}
        #: Keys that the engine does not know any more, or never did.
        self._gone = {
            member.identity
            for member in federation.members()
            if member.revoked and member.identity not in addresses(folder)
        }
        #: What the engine has refused, and when to ask it once more.
        self._later: dict[str, float] = {}
        self._reported: set[tuple[Path, str]] = set()
        self._refused: set[str] = set()

    def look(self) -> None:
        """Do what was asked for since the last time."""
        found = self._federation.bind()
        for path, why in found.skipped.items():
            if (path, why) not in self._reported:
                self._reported.add((path, why))
                self._say(f"skipped {path}: {why}; enrol the site's .pub file anew")
        for key in found.keys:
            if key.identity not in self._known and self._is_time(key.identity):
                self._register(key)
        for member in self._federation.members():
            if member.revoked and member.identity not in self._gone:
                self._put_out(member)
        for identity in self._server.turned_away():
            self._tell_turned_away(identity)

    def _tell_turned_away(self, identity: str) -> None:
        """Say once who knocked in vain; a stranger has no name."""
        member = self._federation.of_key(identity)
        if member is None:
            mark = key_fingerprint(identity)
            line = f"refused a key that is not enrolled here: {mark}"
        elif member.revoked:
            line = f"refused {member.site}: its key was revoked"
        else:
            line = f"refused {member.site}: it is connected already, or was just now"
        if line not in self._refused and len(self._refused) < STRANGERS:
            self._refused.add(line)
            self._say(line)

    def _is_time(self, identity: str) -> bool:
        return self._later.get(identity, 0.0) <= self._clock()

    def _register(self, key: EnrolledKey) -> None:
        try:
            address = self._server.enrol(key.path)
        except InputError as error:
            self._fail(f"{key.name} is not enrolled yet", key.identity, error)
            return
        self._known.add(key.identity)
        if address is not None:
            note_address(self._folder, key.identity, address)
        member = self._federation.of_key(key.identity)
        most = 0 if member is None else member.max_rows
        agreed = f", {most} rows at most" if most else ""
        self._say(f"enrolled {key.name}{agreed}")

    def _put_out(self, member: Member) -> None:
        """Cut the line of a revoked site, when it has had time to hear why."""
        identity = member.identity
        if identity not in self._out:
            # A site that has not come in while this runs hears nothing.
            here = identity in self._known
            self._out[identity] = self._clock() + (LAST_WORD if here else 0.0)
            self._say(f"revoked {member.site}: let in no more; what it said stays")
        if self._clock() < self._out[identity] or not self._is_time(identity):
            return
        address = addresses(self._folder).get(identity)
        try:
            if address is not None:
                self._server.revoke(address)
                forget_address(self._folder, identity)
        except InputError as error:
            self._fail(f"the engine still knows {member.site}", identity, error)
            return
        self._gone.add(identity)

    def _fail(self, what: str, identity: str, error: InputError) -> None:
        self._say(f"{what}: {error}")
        self._later[identity] = self._clock() + AGAIN
