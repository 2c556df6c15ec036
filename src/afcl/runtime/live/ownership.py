# SPDX-License-Identifier: Apache-2.0
"""Whose a name is in one live run: nobody comes under another's, or with its mask key.

In a federation whose sites have keys the :class:`~afcl.runtime.live.door.KeyDoor` knows
for good whose a name is; without keys a name is whose it was first in this run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afcl._typing import ClientId
from afcl.core.messages import Hello, refuse_unless
from afcl.core.tasks import SecureHello
from afcl.privacy.identity import mask_key, verify
from afcl.runtime.live.announcement import Announcement, check_owner
from afcl.runtime.live.door import KeyDoor
from afcl.runtime.live.roster import Roster


class Ownership:
    """Checks that sites are who they say they are.

    Parameters
    ----------
    run
        Identity of the run.
    roster
        Who has announced what in this run.
    door
        Knows the keys that may join; None: nobody needs a key.
    unwelcome
        Tells by its name whether a site is not let in any more.
    """

    def __init__(
        self,
        run: str,
        roster: Roster,
        door: KeyDoor | None,
        unwelcome: Callable[[str], bool] | None,
    ) -> None:
        self._run, self._roster = run, roster
        self._door, self._unwelcome = door, unwelcome

    def check(self, site: Announcement, challenge: str) -> None:
        """Refuse who is not enrolled, or comes under a name that is another's."""
        check_owner(site, self._run, challenge)
        refuse_unless(
            self._unwelcome is None or not self._unwelcome(site.name),
            f"{site.name} was forgotten here, as it was asked for: choose another name "
            "with --name to take part again",
        )
        if self._door is not None:
            self._door.check(site)
        owner = self._roster.owners.get(site.name, site.identity)
        # Who had its key revoked may come with a new one under its old name.
        refuse_unless(
            owner == site.identity or owner in self.revoked(),
            f"the name {site.name} belongs to another key: choose another with --name",
        )

    def check_key(self, hello: Hello) -> None:
        """Refuse a mask key that the site has not signed, before others see it."""
        if not isinstance(hello.payload, SecureHello):
            return
        site, proof = self._roster.site(hello.client), hello.payload.proof
        if proof is None:
            signed = not site.identity
        else:
            about = (self._run, hello.client, site.name, hello.payload.key)
            own = (proof.name, proof.identity) == (site.name, site.identity)
            signed = own and verify(site.identity, mask_key(*about), proof.signature)
        refuse_unless(signed, f"the mask key of {site.name} is not signed by its key")

    def revoked(self) -> Mapping[str, str]:
        """Return the keys that were taken away, and a line on each."""
        return {} if self._door is None else self._door.revoked()

    def is_revoked(self, address: int) -> bool:
        """Whether who is at an address has announced itself with such a key."""
        site = self._roster.announced.get(address)
        return site is not None and site.identity in self.revoked()

    def name_at(self, address: int) -> str:
        """Return what to call somebody who has not been let in."""
        known = None if self._door is None else self._door.name_at(address)
        return known or f"node {address}"

    def most_rows(self, address: int, of_run: int) -> int:
        """Return how many rows who is at an address may declare in this run."""
        agreed = None if self._door is None else self._door.most_rows_at(address)
        return of_run if agreed is None else min(agreed, of_run)

    def let_in(self, site: Announcement, client: ClientId) -> None:
        """Remember for good under which name and number a site was let in."""
        if self._door is not None:
            self._door.let_in(self._run, site, client)
