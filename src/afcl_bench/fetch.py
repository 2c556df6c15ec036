# SPDX-License-Identifier: Apache-2.0
"""The paper's UCI sets, fetched from their public home and kept in a cache.

Where each set is and how its file is laid out was written down from its documentation
and from copies of the files. So what is fetched is never trusted: it is read by the
set's entry in `SOURCES`, and its content must have the checksum that the paper's file
has. A content that differs is refused rather than used, and nothing of it is kept. The
cache is checked the same way every time it is read.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import io
import lzma
import os
import struct
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from afcl import __version__
from afcl._typing import Floats, Ints
from afcl.data.errors import fail
from afcl.durable import part_of_this_process, replacing
from afcl_bench.sources import SOURCES, Source

#: Where the sets are; the environment variable `AFCL_DATA_MIRROR` names another place.
HOME = "https://archive.ics.uci.edu/static/public"
#: Seconds to wait for an answer.
TIMEOUT = 30.0
#: Largest file that is taken, packed or unpacked, in bytes.
LIMIT = 16 * 2**20
#: What reading a damaged archive can raise.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True)
class _Table:
    """Rows and the class of each, as the cache holds them."""

    rows: list[list[float]]
    labels: list[str]

    def checksum(self) -> str:
        """Return the content's checksum; ValueError for rows of unequal length."""
        return checksum(np.array(self.rows), class_codes(self.labels))


class _Failed(Exception):
    """A set could not be had; the text is the reason."""


def class_codes(values: Iterable[str]) -> Ints:
    """Return the classes as codes from 0 in their sorted order, numbers as numbers.

    Examples
    --------
    >>> class_codes(["10", "9", "10"]).tolist(), class_codes(["b", "10"]).tolist()
    ([1, 0, 1], [1, 0])
    """
    words = [value.strip() for value in values]
    try:
        return _ranks([float(word) for word in words])
    except ValueError:
        return _ranks(words)


def checksum(X: Floats, y: Ints) -> str:
    """Return a SHA-256 of rows and classes that does not depend on the rows' order.

    Examples
    --------
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> checksum(X, y) == checksum(X[::-1], y[::-1])
    True
    """
    # Adding 0 makes -0.0 and 0.0 the same text.
    rows = (
        ",".join([*map(repr, row), str(label)])
        for row, label in zip((X + 0.0).tolist(), y.tolist(), strict=True)
    )
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


def cache_folder() -> Path:
    """Return where fetched sets are kept: `AFCL_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("AFCL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afcl"


def fetched(
    name: str,
    folder: Path | None = None,
    *,
    base: str | None = None,
    online: bool = True,
) -> Path:
    """Return the set's file in the cache, and fetch it if it is not there.

    Parameters
    ----------
    name : str
        One of `SOURCES`.
    folder : Path, optional
        Where the set was looked for, for the error's sake.
    base : str, optional
        Where the sets are, instead of `AFCL_DATA_MIRROR` or `HOME`.
    online : bool
        Whether it may be fetched.

    Returns
    -------
    Path
        A CSV with the columns A1, A2, … and the class last.

    Raises
    ------
    InputError
        If it can neither be found nor fetched, or differs from the paper's file.
    """
    source = SOURCES[name]
    path = cache_folder() / f"{name}.csv"
    if _intact(path, source):
        return path
    url = _address(source, base)
    try:
        if not online:
            raise _Failed("fetching is switched off")
        table = _cleaned(_member(_download(url), source), source)
        _verify(table, source)
    except _Failed as failed:
        looked = "" if folder is None else f" is not below {folder} and"
        raise fail(
            f"{name}{looked} could not be fetched from {url} ({failed}): "
            f"put {name}.csv into a folder and name the folder with --data DIR"
        ) from None
    _keep(table, path)
    return path


def _ranks(values: Sequence[float] | Sequence[str]) -> Ints:
    return np.unique(np.array(values), return_inverse=True)[1].astype(np.int64)


def _address(source: Source, base: str | None) -> str:
    home = base or os.environ.get("AFCL_DATA_MIRROR") or HOME
    return f"{home.rstrip('/')}/{source.number}/{source.slug}.zip"


def _download(url: str) -> bytes:
    """Return what is at the address, if it is not too large."""
    agent = {"User-Agent": f"afcl/{__version__}"}
    try:
        request = urllib.request.Request(url, headers=agent)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return _limited(response.read(LIMIT + 1))
    except urllib.error.HTTPError as error:
        error.close()
        raise _Failed(f"HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _Failed(str(error.reason)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _Failed(str(error) or type(error).__name__) from None


def _limited(data: bytes) -> bytes:
    if len(data) > LIMIT:
        raise _Failed(f"more than {LIMIT} bytes, which no set has")
    return data


def _member(packed: bytes, source: Source) -> str:
    """Return the text of the set's file in the archive; nothing is unpacked to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            names = archive.namelist()
            paths = [n for n in names if PurePosixPath(n).name == source.member]
            if not paths:
                raise _Failed(f"the archive has no {source.member}")
            with archive.open(paths[0]) as file:
                return _limited(file.read(LIMIT + 1)).decode("utf-8-sig", "replace")
    except BROKEN:
        raise _Failed("not a whole zip archive") from None


def _cleaned(text: str, source: Source) -> _Table:
    """Return the complete rows, with the paper's columns and classes."""
    table = _Table([], [])
    try:
        for cells in _split(text, source):
            label = source.classes.get(cells[source.label])
            values = [source.words.get(cells[i], cells[i]) for i in source.features]
            if label is not None and "" not in values:
                table.rows.append([_rounded(float(v), source.digits) for v in values])
                table.labels.append(label)
    except (ValueError, OverflowError, csv.Error):
        raise _Failed(f"refused: {source.member} is not laid out as expected") from None
    return table


def _split(text: str, source: Source) -> Iterator[list[str]]:
    """Yield the cells of the lines that are long enough to be rows."""
    least = max(source.label, *source.features)
    lines = text.splitlines()
    if source.delimiter is None:
        cells = iter([line.split() for line in lines])
    else:
        cells = csv.reader(lines, delimiter=source.delimiter, skipinitialspace=True)
    return ([c.strip() for c in row] for row in cells if len(row) > least)


def _rounded(value: float, digits: int | None) -> float:
    """Round to so many digits, those before the point included.

    Examples
    --------
    >>> _rounded(-12.48402055999, 10), _rounded(0.0118469028342, 10)
    (-12.48402056, 0.011846903)
    """
    return value if digits is None else round(value, digits - len(str(int(abs(value)))))


def _verify(table: _Table, source: Source) -> None:
    if not table.rows or table.checksum() != source.checksum:
        raise _Failed(
            f"refused: its {len(table.rows)} rows are not those of the paper's file"
        )


def _intact(path: Path, source: Source) -> bool:
    """Say whether the cache holds the set, undamaged."""
    try:
        _, *lines = path.read_text(encoding="utf-8").splitlines()
        cells = [line.split(",") for line in lines]
        rows = [[float(value) for value in row[:-1]] for row in cells]
        return _Table(rows, [row[-1] for row in cells]).checksum() == source.checksum
    except (OSError, ValueError):
        return False


def _keep(table: _Table, path: Path) -> None:
    """Write the set into the cache, whole or not at all."""
    header = [f"A{i}" for i in range(1, len(table.rows[0]) + 1)]
    lines = [",".join([*header, "class"])]
    for row, label in zip(table.rows, table.labels, strict=True):
        lines.append(",".join([*map(repr, row), label]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise fail(
            f"{path}: cannot be written ({error.strerror}); set AFCL_CACHE to a folder "
            "that can"
        ) from None


def _replace(path: Path, text: str) -> None:
    with replacing(path, part=part_of_this_process(path)) as file:
        file.write(text)
