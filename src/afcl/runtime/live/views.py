# SPDX-License-Identifier: Apache-2.0
"""What a site has said of its rows, kept: never made twice, never for nothing.

A view (a synopsis, groups, the cells of a first message) is made once for a data set,
its columns and its box, accounted for in the ledger, and used again by every later
contact and every later run on the same rows. Everything lies in the site's home, which
outlives its runs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afcl.core.protocol import KeptT
from afcl.exceptions import CodecError, InputError, NothingSent, RejectedMessage
from afcl.privacy.files import alone, write_private
from afcl.privacy.ledger import DataSet, Ledger, Overdrawn
from afcl.runtime.codec import decode, encode

#: Names the folder in which a site keeps what it has said, for all its runs.
HOME = "AFCL_HOME"
#: The folder of views, in the site's home.
VIEWS = "views"


def home_folder() -> Path:
    """Return where a user's sites keep what they have said, unless told otherwise."""
    named = os.environ.get(HOME)
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(state) if state else Path.home() / ".local" / "state") / "afcl"


@dataclass(frozen=True)
class Views:
    """Keeps what is said of one data set in one run; see :class:`core.protocol.Keep`.

    Attributes
    ----------
    folder
        Where views are kept.
    ledger, data
        The account, and whose.
    site, run
        Who says it (for refusals), and to whom.
    within
        Columns and box, as text: under others it is another view.
    """

    folder: Path
    ledger: Ledger
    data: DataSet
    site: str
    run: str
    within: str = ""

    def __call__(
        self, what: str, make: Callable[[], KeptT], cost: float = 0.0
    ) -> KeptT:
        """Return what was said before, or make it, pay for it and keep it."""
        purpose = f"{what} ({self.within})" if self.within else what
        # By the rows and not by the run: another run gets the same view, which tells
        # nothing new.
        content = f"{self.data.rows[0]} {purpose}"
        path = self.folder / hashlib.sha256(content.encode()).hexdigest()
        with alone(path):
            if self.ledger.times(self.data, purpose) and path.is_file():
                kept: KeptT = _opened(path)
                return kept
            with self._refusing():
                # What is refused is not even made.
                self.ledger.check(self.data, purpose, cost, self.run)
            made = make()
            # Kept first, paid then, sent last: lost views would have to be paid for
            # again.
            self._put(path, encode(made))
            try:
                with self._refusing():
                    self.ledger.again(self.data, purpose, cost, self.run)
            except BaseException:
                # What was not paid for must not lie there as if it had been.
                path.unlink()
                raise
            return made

    def note(self, what: str) -> None:
        """Account for something of which every word is new, once a run."""
        purpose = f"{what} in run {self.run}"
        if not self.ledger.times(self.data, purpose):
            with self._refusing():
                self.ledger.charge(self.data, purpose, run=self.run)

    def one_size(self, group: int) -> None:
        """Refuse groups of another size than were told before (0: there are none)."""
        if group:
            with self._refusing():
                self.ledger.check_groups(self.data, group)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Say whose rows may not be described."""
        try:
            yield
        except Overdrawn as error:
            raise RejectedMessage(f"{self.site}: {error}") from None

    def _put(self, path: Path, content: bytes) -> None:
        try:
            write_private(path, content)
        except OSError as error:
            raise NothingSent(
                f"cannot write {path}, so nothing is sent: {error.strerror or error}"
            ) from None


def _opened(path: Path) -> Any:
    try:
        return decode(path.read_bytes())
    except (OSError, CodecError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): restore it from a copy, or delete it; "
            "then it is made anew, which is accounted for again"
        ) from error
