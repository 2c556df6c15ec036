# SPDX-License-Identifier: Apache-2.0
"""A client's account of what its rows' privacy has cost so far, kept before it sends.

One JSON file holds, for every data set, what was released for which purpose, in which
run, and its mu (0 of what has no epsilon). A data set is known by the name its owner
gives it and by what its rows are, in any order: either is enough, so that neither a
copy of a file nor its rows sorted anew begin a new account. The file is always whole,
and whoever changes it holds a lock. What cannot be read is never taken for an empty
account.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from afcl.exceptions import InputError, NothingSent
from afcl.privacy.accountant import check_delta, compose, epsilon_of
from afcl.privacy.files import alone, write_private

#: What the file says it is.
FORMAT = "afcl-ledger"
#: Version of its layout.
VERSION = 2
#: The layout before: mu by purpose, by fingerprint of the rows.
OLDER = 1
#: Rounding that is no overdraft, as a share of the budget.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class DataSet:
    """What tells rows again: their name, fingerprints of them, and where they are."""

    name: str
    rows: tuple[str, ...] = ()
    place: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All by which they are known, whatever they are."""
        return (self.name, self.place) if self.place else (self.name,)


@dataclass(frozen=True, slots=True)
class Release:
    """What was released, in which run, and what it cost (mu; 0: no epsilon)."""

    purpose: str
    run: str
    mu: float


@dataclass(frozen=True, slots=True)
class Account:
    """What was released of one data set, and what it is known by."""

    names: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    released: tuple[Release, ...] = ()

    def shares(self, other: Account) -> bool:
        """Whether both are of the same data: by a name, or by what the rows are."""
        names = set(self.names).isdisjoint(other.names)
        # By either: renamed rows, or a name whose rows have changed, are not new data.
        return not (names and set(self.rows).isdisjoint(other.rows))

    @property
    def in_groups(self) -> bool:
        """Whether anything was told of groups of its rows."""
        return any(_GROUPS.search(each.purpose) for each in self.released)

    @property
    def runs(self) -> set[str]:
        """The runs in which something without an epsilon was released of it."""
        return {each.run for each in self.released if each.run and not each.mu}

    def joined(self, other: Account) -> Account:
        """Return one account of both."""
        return Account(
            tuple(dict.fromkeys(self.names + other.names)),
            tuple(dict.fromkeys(self.rows + other.rows)),
            tuple(dict.fromkeys(self.released + other.released)),
        )


Accounts: TypeAlias = tuple[Account, ...]


class Overdrawn(InputError):
    """A release that the owner of the rows has not allowed."""


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
    runs
        Runs in which something without an epsilon may be released of a data set; None
        counts without a limit.
    """

    def __init__(
        self,
        path: Path | None,
        budget: float | None,
        delta: float = 1e-5,
        runs: int | None = None,
    ) -> None:
        if budget is not None and not budget > 0:
            raise InputError(f"the budget is {budget}: use an epsilon above 0")
        check_delta(delta)
        self.path = path
        self.budget = budget
        self.delta = delta
        self.runs = runs
        self._accounts: Accounts = ()

    def spent(self, data: DataSet) -> float:
        """Return the epsilon that the releases of this data have cost together."""
        return self._epsilon(self.account(data).released)

    def account(self, data: DataSet) -> Account:
        """Return what was released of this data, under any name it is known by."""
        return _found(self._read(), Account(data.names, data.rows))[0]

    def accounts(self) -> Accounts:
        """Return the accounts of all data."""
        return self._read()

    def cost(self, account: Account) -> float:
        """Return the epsilon that everything in an account has cost together."""
        return self._epsilon(account.released)

    def times(self, data: DataSet, purpose: str) -> int:
        """Return how often this was released."""
        released = self.account(data).released
        return sum(_is_of(release.purpose, purpose) for release in released)

    def charge(
        self, data: DataSet, purpose: str, mu: float = 0.0, run: str = ""
    ) -> None:
        """Write down a release before it happens, or refuse it and write nothing.

        The same release again costs nothing: it must send the same bytes.

        Parameters
        ----------
        data : DataSet
            Whose rows are described.
        purpose : str
            What is released.
        mu : float
            What it costs, in Gaussian differential privacy; 0 if that has no measure.
        run : str
            To whom: a run; "" of what is the same in every run, and therefore told in
            one way only.
        """
        if not (mu >= 0 and math.isfinite(mu)):
            raise InputError(f"a release costs mu = {mu}: it must not be negative")
        if self.path is None:
            self._charge(data, Release(purpose, run, mu))
            return
        # Two processes of one site could both find room for the last release.
        with alone(self.path):
            self._charge(data, Release(purpose, run, mu))

    def check(
        self, data: DataSet, purpose: str, mu: float = 0.0, run: str = ""
    ) -> None:
        """Refuse what :meth:`charge` would refuse; nothing is written down."""
        self._check(self.account(data), Release(purpose, run, mu))

    def check_groups(self, data: DataSet, size: int) -> None:
        """Refuse groups of another size than these rows were told in before."""
        _check_groups(self.account(data), Release(groups_of(size), "a run", 0.0))

    def again(self, data: DataSet, purpose: str, mu: float, run: str) -> None:
        """Charge for a release that must be made anew: what it was is lost."""
        times = self.times(data, purpose)
        # Another purpose: noise drawn anew is a further release, and costs.
        suffix = f"{AGAIN}{times}" if times else ""
        self.charge(data, purpose + suffix, mu, run)

    def adopt(self, path: Path) -> None:
        """Take over the accounts of another file, which is not needed afterwards."""
        assert self.path is not None
        with alone(self.path):
            accounts = self._read()
            for account in _read(path):
                accounts = _with(accounts, account)
            self._write(accounts)

    def _charge(self, data: DataSet, release: Release) -> None:
        accounts = self._read()
        own = Account(data.names, data.rows, (release,))
        account, _ = _found(accounts, own)
        # Told again as it was, it tells nothing new: the same bytes are sent.
        for known in account.released:
            if known.purpose != release.purpose:
                continue
            if known.mu != release.mu:
                raise InputError(
                    f"{release.purpose!r} was already charged with another cost: "
                    "start a new run to release this data in another way"
                )
            return
        # Before it is written down, and that before it is sent: a crash in between
        # spends, and never sends unpaid.
        self._check(account, release)
        self._write(_with(accounts, own))

    def _check(self, account: Account, release: Release) -> None:
        """Refuse what exceeds the budget or the number of runs, or is told already."""
        if release.mu > 0:
            self._check_budget(account, release)
            return
        _check_groups(account, release)
        if not release.run:
            _check_way(account, release)
        elif self.runs is not None:
            runs = account.runs
            # Runs that were allowed once stay so, if the owner now allows fewer.
            if len(runs | {release.run}) > max(self.runs, len(runs)):
                raise Overdrawn(
                    f"these rows were described in {len(runs)} "
                    f"{'run' if len(runs) == 1 else 'runs'} already, and every further "
                    "one tells more of single rows by its differences from the others: "
                    f"join with --runs {len(runs) + 1} to allow it, or take part at dp"
                )

    def _check_budget(self, account: Account, release: Release) -> None:
        if self.budget is None:
            return
        after = self._epsilon([*account.released, release])
        # Bisection and roots round: a budget that is spent to the digit is not
        # exceeded.
        if after > self.budget * (1 + SLACK):
            raise Overdrawn(
                f"this data has spent epsilon {self._epsilon(account.released):.3g} of "
                f"{self.budget:g}; this run asks for {self._epsilon([release]):.3g}, "
                f"which would make it {after:.3g}: raise --budget, or ask for a "
                "smaller epsilon"
            )

    def _epsilon(self, releases: Iterable[Release]) -> float:
        costs = [release.mu for release in releases if release.mu]
        # Composed as Gaussian privacy first: adding epsilons up would overstate the
        # cost.
        return epsilon_of(compose(costs), self.delta)

    def _read(self) -> Accounts:
        return self._accounts if self.path is None else _read(self.path)

    def _write(self, accounts: Accounts) -> None:
        """Put the accounts in place, whole or not at all."""
        if self.path is None:
            self._accounts = accounts
            return
        content = {
            "format": FORMAT,
            "version": VERSION,
            "accounts": [asdict(account) for account in accounts],
        }
        try:
            write_private(self.path, json.dumps(content, indent=1).encode())
        except OSError as error:
            raise NothingSent(
                f"cannot write {self.path}, so nothing is sent: "
                f"{error.strerror or error}"
            ) from None


#: Stands between what is released and how often it was before.
AGAIN = ", anew "


def _is_of(known: str, purpose: str) -> bool:
    return known == purpose or known.startswith(purpose + AGAIN)


def _check_way(account: Account, release: Release) -> None:
    """Refuse another way to tell what is the same in every run, however many may be.

    No run is counted for it: without this it could be asked for ever.
    """
    purposes = [r.purpose for r in account.released if not (r.run or r.mu)]
    ways = dict.fromkeys(purpose.partition(AGAIN)[0] for purpose in purposes)
    if ways and release.purpose.partition(AGAIN)[0] not in ways:
        raise Overdrawn(
            f"{next(iter(ways))} were told before, and {release.purpose} would tell "
            "single rows by their differences: ask for the same again, or give public "
            "bounds (--ranges)"
        )


#: How a purpose says of which groups it is.
_GROUPS = re.compile(r"groups of (\d+) rows")


def groups_of(size: int) -> str:
    """Name groups of so many rows, so that a ledger knows their size again."""
    return f"groups of {size} rows"


def _check_groups(account: Account, release: Release) -> None:
    """Refuse groups of another size than was told, in whatever message and run.

    Groups of five and of six differ by single rows: in two first messages, in two
    agreements, and in one of each. Extremes of rows are told of no groups, and after
    groups they are refused; groups after them are a further run, as it is counted.
    """
    told: dict[str, str] = {}
    for each in account.released:
        found = None if each.mu else _GROUPS.search(each.purpose)
        if found:
            told.setdefault(found[1], each.purpose.partition(" (")[0])
    own = _GROUPS.search(release.purpose)
    if not told or (own is None and release.run) or (own and own[1] in told):
        return
    size, before = next(iter(told.items()))
    asked = own[0] if own else release.purpose
    raise Overdrawn(
        f"{before.partition(AGAIN)[0]} were told before, and {asked} would tell single "
        f"rows by their differences: ask for groups of {size} again, or for dp"
        + ("" if release.run else ", or give public bounds (--ranges)")
    )


def _found(accounts: Accounts, about: Account) -> tuple[Account, Accounts]:
    """Return what is known of the same data as one account, and all others."""
    own, others = Account(), []
    for account in accounts:
        if account.shares(about):
            own = own.joined(account)
        else:
            others.append(account)
    return own, tuple(others)


def _with(accounts: Accounts, more: Account) -> Accounts:
    """Return accounts that know this too."""
    own, others = _found(accounts, more)
    return (*others, own.joined(more))


def _read(path: Path) -> Accounts:
    """Return the accounts as they stand in a file."""
    try:
        text = path.read_bytes()
    # No ledger yet; any other trouble must not read as "nothing was spent".
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return _parsed(json.loads(text))
    except (ValueError, RecursionError):
        raise InputError(
            f"{path} is damaged or no ledger: restore it from a copy; without it "
            "nobody knows what this data has spent"
        ) from None


def _parsed(content: Any) -> Accounts:
    """Return the accounts in a file's content, or raise ValueError."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("no ledger")
    accounts, version = content.get("accounts"), content.get("version")
    # What was spent under the first layout stays spent.
    if version == OLDER and isinstance(accounts, dict):
        return tuple(_from_older(rows, each) for rows, each in accounts.items())
    if version != VERSION or not isinstance(accounts, list):
        raise ValueError("no accounts")
    return tuple(_account(each) for each in accounts)


def _account(content: Any) -> Account:
    if not isinstance(content, dict) or content.keys() != {"names", "rows", "released"}:
        raise ValueError("an account is a table")
    names, rows, released = (content[key] for key in ("names", "rows", "released"))
    if not all(isinstance(each, list) for each in (names, rows, released)):
        raise ValueError("an account has lists")
    if not all(isinstance(text, str) for text in (*names, *rows)):
        raise ValueError("names are texts")
    return Account(tuple(names), tuple(rows), tuple(map(_release, released)))


def _release(content: Any) -> Release:
    if not isinstance(content, dict) or content.keys() != {"purpose", "run", "mu"}:
        raise ValueError("a release is a table")
    purpose, run, mu = (content[key] for key in ("purpose", "run", "mu"))
    if not (isinstance(purpose, str) and isinstance(run, str)):
        raise ValueError("a purpose is a text")
    return Release(purpose, run, _cost(mu, least=0.0))


def _from_older(rows: str, costs: Any) -> Account:
    """Return an account of the first layout: purposes were "run contact"."""
    if not isinstance(costs, dict):
        raise ValueError("an account is a table")
    return Account(
        (),
        (rows,),
        tuple(
            Release(purpose, purpose.partition(" ")[0], _cost(mu, least=5e-324))
            for purpose, mu in costs.items()
        ),
    )


def _cost(mu: Any, least: float) -> float:
    if type(mu) not in (float, int) or not least <= mu < math.inf:
        raise ValueError("a cost is a number")
    return float(mu)
