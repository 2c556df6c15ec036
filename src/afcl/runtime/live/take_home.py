# SPDX-License-Identifier: Apache-2.0
"""The end of a live run at a site: labels of its own rows, and its own result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Ints
from afcl.core.terms import Finish, Terms
from afcl.data.features import Feature
from afcl.data.tables import Table
from afcl.gaps import has_gaps
from afcl.methods import get_method
from afcl.runtime.codec import decode
from afcl.runtime.gap_files import describe_gaps, gaps_in
from afcl.runtime.live.answers import forget
from afcl.runtime.live.facts import read_facts
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.level_names import names_key
from afcl.runtime.live.membership import DONE, Membership, keep_membership
from afcl.runtime.live.own_rows import SiteRows
from afcl.runtime.live.spelling import called
from afcl.runtime.live.taking_part import given_rows
from afcl.runtime.results import RESULT, write_labels, write_result_file
from afcl.runtime.site import Site
from afcl.texts import plain

#: The memory of a site's method.
MEMORY = "memory.bin"
#: The site's labels, a line for every row of its files.
LABELED = "labels.csv"


def take_home(folder: Path, member: Membership, own: SiteRows, asked: Finish) -> None:
    """Label the site's own rows, and write what it takes home."""
    if (folder / RESULT).is_file():
        return
    source, in_terms = own.source, given_rows(member, own, asked.terms)
    memory = folder / MEMORY
    known = decode(memory.read_bytes()) if memory.is_file() else None
    clustering = asked.answer.clustering()
    method = get_method(asked.terms.method)
    sizes = np.zeros(clustering.k, dtype=np.int64)

    def counted(parts: Iterable[Ints]) -> Iterator[Ints]:
        for labels in parts:
            sizes[:] += np.bincount(labels, minlength=clustering.k)
            yield labels

    client = asked.terms.client
    label = partial(method.label, clustering, memory=known, client=client)
    site = Site(in_terms.rows, in_terms.columns, missing=member.gaps)
    if isinstance(source, Table):
        rows = site.to_label(asked.terms, clustering.landmarks)
        (labels,) = counted([label(rows.table())])
        write_labels(folder / LABELED, source.in_input_order(labels), source.ids)
    else:
        parts = counted(site.agreed(asked.terms).map(label))
        write_labels(folder / LABELED, source.in_input_order(parts), source.ids)
    result = read_facts(asked.facts, asked.terms.columns)
    result |= _by_its_names(member, own, asked.terms)
    result["site"] = {
        "name": member.name,
        "rows": int(sizes.sum()),
        "sizes": [int(size) for size in sizes],
        "members": list(member.met),
        "notes": list(member.notes),
    }
    if site.set_aside:
        result["site"]["set_aside"] = site.set_aside
    result["site"] |= _gaps(site, asked.terms, result)
    if member.hindered and not member.described:
        result["site"]["took_no_part"] = member.hindered
    write_result_file(folder, result, private=True)
    keep_membership(folder, replace(member, state=DONE))
    forget(folder)


def _gaps(site: Site, terms: Terms, result: dict[str, Any]) -> dict[str, Any]:
    """Return which of its cells had no value, and how many of them were filled."""
    if not isinstance(site.rows, np.ndarray) or not has_gaps(site.rows):
        return {}
    places = [site.columns.index(name) for name in terms.columns]
    rows = site.rows[:, places] if places else site.rows
    named = result["columns"], tuple(map(Feature.of, result["features"]))
    return describe_gaps(gaps_in(rows, *named), site.filled, *named)


def _by_its_names(member: Membership, own: SiteRows, terms: Terms) -> dict[str, Any]:
    """Return columns and categories of the result, by names that the site knows."""
    key = names_key(member.names_key)
    agreed = terms.categories or ()
    known = [
        Feature(plain(each.name), tuple(map(plain, own.names_of(each, key))))
        for each in agreed
    ]
    new: dict[str, str] = {}
    for before, after in zip(features_of(agreed), known, strict=True):
        new |= dict(zip(before.columns, after.columns, strict=True))
    columns = [new.get(column, column) for column in terms.columns]
    days = called(member.date, columns).values()
    return {
        "columns": columns,
        "features": [each.content() for each in known],
        "dates": [name for name in days if name in columns],
    }
