# SPDX-License-Identifier: Apache-2.0
"""Who is who in a live run: addresses of the engine, names of sites, client numbers.

An address says who can be reached, a name who it is, a number what the coordinator
calls it. Numbers are given in the order in which sites were first let in, and are kept
by whoever comes back under the same name from another address, with the same key.
"""

from __future__ import annotations

from collections.abc import Sequence

from afcl._typing import ClientId
from afcl.core.terms import Terms
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import AGREEMENT, COORDINATOR, Entry
from afcl.runtime.live.announcement import Announcement


class Roster:
    """The sites that have announced themselves, and those of them that were let in.

    Parameters
    ----------
    numbers
        Sites of earlier runs, by the numbers that they keep.

    Attributes
    ----------
    names : dict from client to str
        Of those that were let in.
    addresses : dict from client to int
        Where they are, or were last.
    announced : dict from address to Announcement
        Everybody's that has not been refused.
    owners : dict from str to str
        The key (or none: "") that a name was announced with, for the whole run.
    founders : list of Announcement
        Those that the agreement was made from, if the run is taken up.
    terms : Terms or None
        The agreed ones, if the run is taken up.
    """

    def __init__(self, numbers: Sequence[str] = ()) -> None:
        self.names: dict[ClientId, str] = {}
        self.addresses: dict[ClientId, int] = {}
        self.announced: dict[int, Announcement] = {}
        self.owners: dict[str, str] = {}
        self.founders: list[Announcement] = []
        self.terms: Terms | None = None
        #: Every address under the names it announced; it may have another name now.
        self._called: dict[str, set[int]] = {}
        self._numbers = {name: i for i, name in enumerate(numbers) if name}
        #: The next number that nobody has, or ever had.
        self._free = len(numbers)
        #: Announcements as they came, for the journal.
        self._received: dict[int, bytes] = {}

    def restore(self, log: Sequence[Entry]) -> None:
        """Know again who was let in, from the journal of the run.

        Who stands there before the agreed terms made the agreement.
        """
        for entry in log:
            if entry.contact != AGREEMENT:
                continue
            if entry.client == COORDINATOR:
                self.terms = decode(entry.data)
                continue
            site: Announcement = decode(entry.data)
            address = int.from_bytes(entry.memory, "little")
            self.announce(address, site)
            self._number(entry.client, site.name, address)
            if self.terms is None:
                self.founders.append(site)

    def announce(self, address: int, site: Announcement, data: bytes = b"") -> None:
        """Note who is at an address; `data` is the announcement as it came."""
        self.announced[address] = site
        self.owners[site.name] = site.identity
        self._called.setdefault(site.name, set()).add(address)
        if data:
            self._received[address] = data

    def namesakes(self, name: str) -> set[int]:
        """Return the addresses that go by a name."""
        once = self._called.get(name, set()) & self.announced.keys()
        return {address for address in once if self.announced[address].name == name}

    def let_in(self, address: int) -> Entry:
        """Give the site at an address a number; return what the journal remembers."""
        site = self.announced[address]
        client = self._numbers.get(site.name, self._free)
        self._number(client, site.name, address)
        data = self._received.get(address) or encode(site)
        return Entry(client, AGREEMENT, data, address.to_bytes(8, "little"))

    def _number(self, client: ClientId, name: str, address: int) -> None:
        self._numbers[name] = client
        self._free = max(self._free, client + 1)
        self.names[client] = name
        self.addresses[client] = address

    def site(self, client: ClientId) -> Announcement:
        """Return what a client has announced last."""
        return self.announced[self.addresses[client]]
