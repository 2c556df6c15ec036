# SPDX-License-Identifier: Apache-2.0
"""How a site stands to the terms of a run: which rows it gives, and whether any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl.core.terms import Terms
from afcl.data.features import bounds_of
from afcl.exceptions import RejectedMessage
from afcl.gaps import KEEPING, speaking
from afcl.privacy.levels import parse_level
from afcl.reliance import no_part_words
from afcl.runtime.agreement import quoted
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.level_names import names_key
from afcl.runtime.live.membership import Membership
from afcl.runtime.live.own_rows import InTerms, SiteRows
from afcl.runtime.site import settled


def given_rows(member: Membership, own: SiteRows, terms: Terms) -> InTerms:
    """Return the rows as the terms want them, if the site goes along with that."""
    in_terms = own.in_terms(terms, names_key(member.names_key))
    if in_terms.lacking and member.missing not in KEEPING:
        raise RejectedMessage(
            f"{member.name} lacks {quoted(in_terms.lacking)}: join with --missing "
            "impute to let something stand there"
        )
    return in_terms


def standing(
    member: Membership, in_terms: InTerms, terms: Terms
) -> tuple[Membership, bool]:
    """Return the site with notes on how it takes part, and whether it does at all.

    As in a simulated run, a site of which too few rows can be filled says nothing.
    """
    method, parameters = settled(terms)
    disclosure = method.disclosure(parameters)
    group = parse_level(disclosure.level).group if disclosure.level else 1
    least = max(1, disclosure.min_cell or 1, group)
    n, notes = in_terms.rows.shape[0], []
    if isinstance(in_terms.rows, np.ndarray):
        features = features_of(terms.categories or ())
        bounds = bounds_of(terms.columns, features) if features else None
        n = speaking(in_terms.rows, member.gaps, bounds)
    if in_terms.lacking:
        usual = f"what is usual at the others stands for {quoted(in_terms.lacking)}"
        notes.append(f"{member.name}: {usual}")
    if n < least:
        notes.append(
            f"{member.name}: {n} rows whose gaps can be filled, fewer than {least}: "
            f"{no_part_words(in_terms.rows.shape[0])}"
        )
    return replace(member, notes=tuple(notes)), n >= least
