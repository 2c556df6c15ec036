# SPDX-License-Identifier: Apache-2.0
"""Who may come into a run of a federation whose sites have keys.

The key decides. The name that a key was enrolled under, and the one that its site was
first let in under, are its own for good. Whoever cannot say its name is called by it
all the same, where the engine has told at which address its key will be met.
"""

from __future__ import annotations

import json
from pathlib import Path

from afcl.core.messages import refuse_unless
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.federation import Federation, Member
from afcl.runtime.results import write_text

#: Addresses of the engine by key, in the run's folder.
ADDRESSES = "addresses.json"


class KeyDoor:
    """What the coordinator knows of sites before they say anything.

    Parameters
    ----------
    federation : Federation
    folder : Path
        The run's.
    """

    def __init__(self, federation: Federation, folder: Path) -> None:
        self._federation = federation
        self._folder = folder

    def check(self, site: Announcement) -> None:
        """Refuse a site without an enrolled key, or under a name that is not its own.

        Raises
        ------
        RejectedMessage
        """
        gone = self.revoked().get(site.identity)
        refuse_unless(gone is None, gone or "")
        keys = {key.identity: key.name for key in self._federation.enrolment().keys}
        refuse_unless(
            site.identity in keys,
            f"{site.name} does not sign with a key that is enrolled here: join "
            "with the --key whose .pub was given to 'afcl enrol'",
        )
        member = self._federation.of_key(site.identity)
        own = keys[site.identity] if member is None else member.site
        owner = self._federation.owner(site.name)
        refuse_unless(
            owner is None or owner.identity == site.identity,
            f"the name {site.name} belongs to another key: join with --name {own}",
        )
        refuse_unless(
            member is None or member.called in ("", site.name),
            f"the key of {site.name} belongs to {own}: join with --name {own}",
        )
        most = 0 if member is None else member.max_rows
        refuse_unless(
            not most or site.n_rows <= most,
            f"{site.name} has {site.n_rows} rows, and {most} at most were agreed when "
            "it was enrolled: if that is true, enrol its key again with --max-rows",
        )

    def revoked(self) -> dict[str, str]:
        """Return the keys that were taken away, and a line for the owner of each."""
        return {
            member.identity: f"the key of {member.site} was revoked on "
            f"{member.revoked[:10]}: ask whoever runs the coordinator; a new key is "
            "made with 'afcl keygen' and let in with 'afcl enrol --replace'"
            for member in self._federation.members()
            if member.revoked
        }

    def name_at(self, address: int) -> str | None:
        """Return whose key is met at an address, None if that is not known."""
        member = self._met_at(address)
        return None if member is None else member.site

    def most_rows_at(self, address: int) -> int | None:
        """Return how many rows were agreed with whoever is met at an address, if so."""
        member = self._met_at(address)
        return None if member is None else member.max_rows or None

    def _met_at(self, address: int) -> Member | None:
        known = addresses(self._folder)
        keys = [identity for identity, at in known.items() if at == address]
        return self._federation.of_key(keys[0]) if keys else None

    def let_in(self, run: str, site: Announcement, client: int) -> None:
        """Remember for good under which name and number a site was let in."""
        self._federation.let_in(run, site.name, site.identity, client)


def addresses(folder: Path) -> dict[str, int]:
    """Return where the engine of a run meets its sites, by their keys."""
    try:
        found = json.loads((folder / ADDRESSES).read_text(encoding="utf-8"))
        return {str(identity): int(at) for identity, at in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # for lines that people read: without it they have numbers


def note_address(folder: Path, identity: str, address: int) -> None:
    """Remember where the engine of a run meets the owner of a key."""
    _keep(folder, {**addresses(folder), identity: address})


def forget_address(folder: Path, identity: str) -> None:
    """Forget where the owner of a key was met."""
    known = addresses(folder)
    known.pop(identity, None)
    _keep(folder, known)


def _keep(folder: Path, known: dict[str, int]) -> None:
    write_text(folder / ADDRESSES, json.dumps(known, indent=2) + "\n", True)
