# SPDX-License-Identifier: Apache-2.0
"""What a site of a live run keeps of itself: its file, its promises, how far it is."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from afcl.data.dialect import UNKNOWN, Dialect
from afcl.data.sites import Sites, SiteTable, open_sites
from afcl.data.tables import Table
from afcl.exceptions import AfclError, InputError
from afcl.gaps import IMPUTE, KEEPING
from afcl.runtime.live.own_rows import SiteRows
from afcl.runtime.requirements import needs_all_rows
from afcl.runtime.results import write_text

#: The file that holds it, in the site's folder.
SITE = "site.json"
#: Fields that are lists in the file.
LISTS = ("columns", "drop", "date", "null", "steps", "met", "notes")
#: What a file of rows ends with if it is a program that finds them.
PROGRAM = ".py"
#: What such a program defines.
FUNCTION = "rows"
#: States of a membership: not asked yet, let in, turned away by the coordinator, turned
#: away by itself, finished.
WAITING = "waiting"
JOINED = "joined"
REFUSED = "refused"
DECLINED = "takes no part"
DONE = "done"
#: Those in which a site is no part of the run.
LEFT_OUT = (REFUSED, DECLINED)


@dataclass(frozen=True)
class Membership:
    """What a site was given when it joined, and how far it is.

    Attributes
    ----------
    data, columns, drop, missing, numeric_only
        The file and which of it counts, as in ``afcl run``.
    categories, date
        Its columns that are categories although they look like numbers (none: with the
        levels that are found; others: with these and no others), and those of dates.
    names_key
        The file of what names of levels are hashed with (none: no secret).
    separator, decimal, encoding, null
        How text in it is written, as far as that is said.
    id
        The column that names its rows, which is for the site alone.
    name, units
        What the site says of itself.
    min_cell, method, privacy
        What the site insists on, whatever the coordinator asks for: no smaller cells,
        no other method, no weaker level.
    cohort, holders, one_cohort
        Fewest members of a cohort that it lets itself be summed with, fewest of them
        that hold rows of a group, and whether it stays with the first cohort, also if
        the coordinator says that somebody has dropped out.
    contacts
        Most steps of a run that it answers, where these are not sums.
    budget, runs
        The epsilon its rows may cost in all, and in how many runs something may be said
        of them that has no epsilon.
    home, ledger
        The folder in which it keeps what it has said, for all its runs, and the file of
        the account (in the home).
    dataset, changed
        What its rows are called from run to run (by default by their place and
        columns), and whether they may have changed since the last one.
    stream, device
        Whether its rows stay in their files; None: if they are many. Where they are
        worked on; `auto`: in main memory.
    run, fingerprint, rows, state, reason
        The run it takes part in, its rows as they were then (in their order, and in
        any), and where it stands.
    asked, terms, steps, summed
        Digests of what it was asked to announce, of the terms it works under, of the
        steps it has answered, and of the last cohort it was in.
    key, members
        The file of its private key (none: it signs nothing), and that of the public
        keys of whom it lets itself be summed with (none: whoever it met first).
    met
        Fingerprints of the members it was summed with.
    coordinator, keep_sent
        For its own record: the address it joined, and whether everything it sends is
        kept in its folder.
    stays, begun, answered
        Whether it takes part in answer after answer (then `run` is the federation), the
        number of the last one that began, and of the last one it has labels of.
    max_rows
        Rows that it may declare, as the coordinator says; 0: it has not.
    notes
        Lines for its owner on how its rows take part.
    described, hindered
        Whether it has said anything of its rows in this run, and why not, as far as
        that is its own doing.
    labels_anyway
        Whether it waits for the answer to label its rows also where it declines.
    """

    data: str
    name: str
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: str = "error"
    numeric_only: bool = False
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    date: tuple[str, ...] = ()
    names_key: str = ""
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    null: tuple[str, ...] = ()
    id: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    min_cell: int = 5
    method: str = "afcl"
    privacy: str = "summary"
    cohort: int = 3
    holders: int = 3
    one_cohort: bool = False
    contacts: int = 3
    budget: float | None = None
    runs: int = 1
    home: str = ""
    ledger: str = ""
    dataset: str = ""
    changed: bool = False
    stream: bool | None = None
    device: str = "auto"
    run: str = ""
    fingerprint: str = ""
    rows: str = ""
    asked: str = ""
    terms: str = ""
    steps: tuple[str, ...] = ()
    summed: str = ""
    state: str = WAITING
    reason: str = ""
    key: str = ""
    members: str = ""
    met: tuple[str, ...] = ()
    coordinator: str = ""
    keep_sent: bool = False
    stays: bool = False
    begun: int = 0
    answered: int = 0
    max_rows: int = 0
    notes: tuple[str, ...] = ()
    described: bool = False
    hindered: str = ""
    labels_anyway: bool = False

    @property
    def waits(self) -> bool:
        """Whether it is left out, and waits for the answer all the same."""
        return self.state == DECLINED and self.labels_anyway

    @property
    def gaps(self) -> str:
        """How gaps are dealt with, where rows with gaps are kept."""
        return self.missing if self.missing in KEEPING else IMPUTE

    def read(self) -> Sites[Table]:
        """Read the site's rows into memory; refuses to if they are streamed."""
        opened = self.open()
        held = tuple(table for table in opened.tables if isinstance(table, Table))
        if not held:
            raise InputError("they are too many to be read at once")
        return Sites(held, opened.notes, opened.features)

    def own_rows(self, whole: str = "") -> SiteRows:
        """Open the site's rows as it reads them, before anything is agreed."""
        opened = self.open(whole)
        declared = frozenset(name for name, levels in self.categories.items() if levels)
        return SiteRows(opened.tables[0], opened.features, declared)

    def open(self, whole: str = "") -> Sites[SiteTable]:
        """Make the site's rows ready to be read; bad ones end in one line.

        `whole` names what needs them in memory, if something does.
        """
        whole = whole or needs_all_rows(self.method, self.privacy)
        if Path(self.data).suffix == PROGRAM:
            return self._run(whole)
        return open_sites(
            [Path(self.data)],
            columns=self.columns or None,
            drop=self.drop,
            missing=self.missing,
            min_rows=self.min_cell,
            stream=self.stream,
            whole=whole,
            dialect=self.dialect,
            numeric_only=self.numeric_only,
            id_column=self.id,
            categories=self.categories,
            dates=self.date,
            least=self.min_cell,
            meeting=True,
        )

    @property
    def dialect(self) -> Dialect:
        """What is said of the way the site's text is written."""
        return Dialect(self.separator, self.decimal, self.encoding, self.null)

    def _run(self, whole: str) -> Sites[SiteTable]:
        """Let the site's own program say where the rows are."""
        if whole:
            raise InputError(f"{whole} needs all rows in memory: give --data a table")
        table_options = (
            bool(self.columns or self.drop or self.numeric_only or self.id),
            bool(self.categories or self.date),
        )
        if any(table_options) or self.missing != "error" or self.dialect != UNKNOWN:
            raise InputError(
                "--columns, --drop, --missing, --id and the like are for tables: "
                f"{self.data} is a program, let it choose"
            )
        return Sites((rows_from(Path(self.data)),), ())


def rows_from(path: Path) -> Any:
    """Run a site's program (``afcl join --data rows.py``): return its source of rows.

    It runs on the site's own machine, in a new process for every request, and returns
    such as a :class:`~afcl.runtime.cluster.ClusterTable`.

    Parameters
    ----------
    path : Path
        A Python file that defines ``rows()``.

    Raises
    ------
    InputError
        If there is no such file or function, if it fails, or if what it returns is no
        source of rows with named columns.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; --data wants a file of rows")
    try:
        function = runpy.run_path(str(path)).get(FUNCTION)
        source = function() if callable(function) else None
    except AfclError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:
        raise InputError(f"{path} failed: {type(error).__name__}: {error}") from error
    if not getattr(source, "streamed", False) or not getattr(source, "columns", ()):
        raise InputError(
            f"{path}: rows() must return a ClusterTable of a frame with named columns"
        )
    return source


def open_membership(folder: Path) -> Membership:
    """Read how far the site is."""
    try:
        fields = json.loads((folder / SITE).read_text(encoding="utf-8"))
        lists = {name: tuple(fields[name]) for name in LISTS if name in fields}
        levels = {n: tuple(each) for n, each in fields.get("categories", {}).items()}
        return Membership(**{**fields, **lists, "categories": levels})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / SITE} cannot be read: {error}") from error


def keep_membership(folder: Path, membership: Membership) -> None:
    """Write how far the site is, whole or not at all."""
    write_text(folder / SITE, json.dumps(asdict(membership), indent=2) + "\n", True)
