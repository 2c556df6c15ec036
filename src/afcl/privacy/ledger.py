# SPDX-License-Identifier: Apache-2.0
"""A client's account of what its rows' privacy has cost so far, kept before it sends.

One JSON file holds, for every data set (named by a fingerprint), what was released for
which purpose and its mu. The file is always whole: it is written beside, synced and put
in place in one step, and whoever changes it holds a lock. What cannot be read is never
taken for an empty account.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from afcl.exceptions import InputError
from afcl.owner_only import make_folder, owner_only
from afcl.privacy.accountant import check_delta, compose, epsilon_of

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: What the file says it is.
FORMAT = "afcl-ledger"
#: Version of its layout.
VERSION = 1
#: Rounding that is no overdraft, as a share of the budget.
SLACK = 1e-9
#: Seconds to wait for another process where the system has no locks of its own.
PATIENCE = 10.0

#: Whether a folder can be opened and synced like a file.
_CAN_SYNC_FOLDERS = os.name == "posix"

#: mu by purpose, by fingerprint of the data.
Accounts: TypeAlias = dict[str, dict[str, float]]


class Ledger:
    """What was spent on which data, and how much may be.

    Attributes
    ----------
    path
        The file; None keeps the account in memory.
    budget
        The epsilon, at `delta`, that all releases of one data set may cost together;
        None counts without a limit.
    delta
        The delta at which epsilon is meant.
    """

    def __init__(
        self, path: Path | None, budget: float | None, delta: float = 1e-5
    ) -> None:
        if budget is not None and not budget > 0:
            raise InputError(f"the budget is {budget}: use an epsilon above 0")
        check_delta(delta)
        self.path = path
        self.budget = budget
        self.delta = delta
        self._accounts: Accounts = {}

    def spent(self, data: str) -> float:
        """Return the epsilon that the releases of this data have cost together."""
        return self._epsilon(self._read().get(data, {}).values())

    def charge(self, data: str, purpose: str, mu: float) -> None:
        """Write down a release before it happens, or refuse it and write nothing.

        The same release again costs nothing: it must send the same bytes.

        Parameters
        ----------
        data : str
            Fingerprint of the rows.
        purpose : str
            What is released and to whom, such as a run and a message of it.
        mu : float
            What it costs, in Gaussian differential privacy.
        """
        if not (mu > 0 and math.isfinite(mu)):
            raise InputError(f"a release costs mu = {mu}: it must be positive")
        with self._alone():
            accounts = self._read()
            account = accounts.get(data, {})
            if purpose in account:
                if account[purpose] != mu:
                    raise InputError(
                        f"{purpose!r} was already charged with another cost: "
                        "start a new run to release this data in another way"
                    )
                return
            self._check(account, mu)
            self._write({**accounts, data: {**account, purpose: mu}})

    def _check(self, account: dict[str, float], mu: float) -> None:
        """Refuse what would exceed the budget."""
        if self.budget is None:
            return
        after = self._epsilon([*account.values(), mu])
        if after > self.budget * (1 + SLACK):
            raise InputError(
                f"this data has spent epsilon {self._epsilon(account.values()):.3g} of "
                f"{self.budget:g}; this run asks for {self._epsilon([mu]):.3g}, which "
                f"would make it {after:.3g}: raise --budget, or ask for a smaller "
                "epsilon"
            )

    def _epsilon(self, mus: Any) -> float:
        return epsilon_of(compose(mus), self.delta)

    def _read(self) -> Accounts:
        """Return the accounts as they stand in the file."""
        if self.path is None:
            return self._accounts
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror or error}"
            ) from None
        try:
            return _parsed(json.loads(text))
        except (ValueError, RecursionError):
            raise InputError(
                f"{self.path} is damaged or no ledger: restore it from a copy; without "
                "it nobody knows what this data has spent"
            ) from None

    def _write(self, accounts: Accounts) -> None:
        """Put the accounts in place, whole or not at all."""
        if self.path is None:
            self._accounts = accounts
            return
        content = {"format": FORMAT, "version": VERSION, "accounts": accounts}
        part = self.path.with_name(self.path.name + ".part")
        try:
            with open(part, "w", encoding="utf-8", opener=owner_only) as file:
                json.dump(content, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}, so nothing is sent: "
                f"{error.strerror or error}"
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing the file meanwhile."""
        if self.path is None:
            yield
            return
        beside = self.path.with_name(self.path.name + ".lock")
        try:
            make_folder(beside.parent)
            lock = open(beside, "a", opener=owner_only) if fcntl else _exclusive(beside)
        except OSError as error:
            raise InputError(
                f"cannot lock {self.path}: {error.strerror or error}"
            ) from None
        with lock:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield
            finally:
                if not fcntl:
                    beside.unlink()


def _parsed(content: Any) -> Accounts:
    """Return the accounts in a file's content, or raise ValueError."""
    if not isinstance(content, dict) or (
        content.get("format"),
        content.get("version"),
    ) != (FORMAT, VERSION):
        raise ValueError("no ledger")
    accounts = content.get("accounts")
    if not isinstance(accounts, dict):
        raise ValueError("no accounts")
    for account in accounts.values():
        if not isinstance(account, dict):
            raise ValueError("an account is a table")
        for mu in account.values():
            if type(mu) not in (float, int) or not 0 < mu < math.inf:
                raise ValueError("a cost is a positive number")
    return accounts


def _exclusive(path: Path) -> Any:
    """Create a file that must not exist, waiting for who holds it."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return open(path, "x")
        except FileExistsError:
            if time.monotonic() > until:
                raise InputError(
                    f"another process holds {path}: wait for it, or delete the file if "
                    "there is none"
                ) from None
            time.sleep(0.01)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be synced."""
    if not _CAN_SYNC_FOLDERS:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
