# SPDX-License-Identifier: Apache-2.0
"""Which sites of a live run fit together, and with which columns, units and scale.

Every site announces itself once. From all announcements and what the coordinator asks
for comes one agreement, frozen from then on; who comes later is measured against it.
All of it is pure: lines for people are returned, never printed, and no answer depends
on the order in which the announcements came.

What is refused and what is only noted: a site that lacks a column or rows, takes a
column for something else, or declares another unit, is refused. A column that merely
*looks* as if it were in another unit is noted, because sites may really differ. A site
that allows it may lack a column that two others have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from afcl.core.terms import Category
from afcl.runtime.agreement import (
    AgreementRequest,
    listed,
    quoted,
    too_many_rows,
)
from afcl.runtime.live.agreed import agree_on, declared_units
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.kinds import (
    categories_among,
    other_key,
    other_kind,
    settled_levels,
    usual_key,
)
from afcl.runtime.live.notes import (
    SiteAgreement,
    constant_columns,
    lacks,
    plain_name,
    respelt,
    rows_text,
    site_notes,
    spellings,
)
from afcl.runtime.live.spelling import one_name_each

#: Fewest others that must have a column which a site may lack.
HOLDERS = 2


def settle(
    request: AgreementRequest, announcements: Sequence[Announcement]
) -> tuple[SiteAgreement | None, dict[str, str], list[str]]:
    """Agree with the sites that are there.

    Parameters
    ----------
    request : AgreementRequest
    announcements : sequence of Announcement
        Checked ones, with extremes if `request.extremes`; their order does not matter.

    Returns
    -------
    agreement : SiteAgreement or None
        None if no site fits.
    refusals : dict from str to str
        By the name of the site, one line each that says what to do.
    notes : list of str
        Lines for the coordinator.

    Raises
    ------
    InputError
        If an agreed column has no bounds although bounds are given, or a category no
        levels although rows must not tell them.

    Notes
    -----
    Refused are, in this order: sites whose names differ at most by case (all of them),
    sites with too few or too many rows, sites that take a column for something else,
    sites that lack an agreed column, sites that declare another unit, sites that hash
    names of levels otherwise. Each step looks only at the sites that are left.

    Columns go by one spelling: that which is named, or most frequent. Unless named, the
    agreed columns are those that more than half of the sites have.
    They come in the order of the site that has most of them (of several, the first by
    name); what that one lacks follows in the order of the next such site.

    The columns depend on everybody, also on who is refused. To settle again with the
    accepted sites alone, name the agreed columns: the agreement is the same then.
    """
    refusals = _namesakes(announcements)
    sites = [site for site in announcements if site.name not in refusals]
    sites.sort(key=lambda site: site.name)
    sites = _sift(sites, refusals, lambda site: _too_few(site, request.min_rows))
    sites = _sift(sites, refusals, lambda site: _too_many(site, request.max_rows))
    names = one_name_each([site.columns for site in sites], _named(request))
    respellings = {site.name: respelt(site, names) for site in sites}
    sites = [site.under(names) for site in sites]
    columns = request.columns or _common(sites)
    notes = [] if request.columns else spellings(sites, columns)
    kinds = categories_among(columns, sites, _declared(request))
    fitting = _sift(sites, refusals, lambda site: other_kind(site, columns, kinds))
    fitting, categories, left_out = _fitting(request, columns, kinds, fitting, refusals)
    if sites and columns and not fitting:
        notes.append(f"no site has all of {quoted(columns)}: name the columns to use")
    if not fitting:
        return None, refusals, notes
    notes += [note for site in fitting for note in respellings[site.name]]
    notes += left_out.values()
    columns = tuple(column for column in columns if column not in left_out)
    agreement, own = agree_on(request, columns, categories, fitting)
    notes += own
    notes += constant_columns(agreement)
    for site in fitting:
        notes += site_notes(agreement, site)
    return agreement, refusals, notes


def admit(
    agreement: SiteAgreement, request: AgreementRequest, site: Announcement
) -> tuple[str | None, list[str]]:
    """Measure a late or returning site against the agreement, which does not change.

    Parameters
    ----------
    agreement : SiteAgreement
    request : AgreementRequest
        What it was settled with.
    site : Announcement
        A checked one.

    Returns
    -------
    refusal : str or None
        One line that says what to do, None if the site is welcome.
    notes : list of str
        Lines for the coordinator, none about a site that is refused.
    """
    columns, known = agreement.embedding.columns, agreement.categories
    respellings = respelt(site, columns)
    site = site.under(columns)
    refusal = (
        _resembles(site.name, agreement.rows)
        or _too_few(site, request.min_rows)
        or _too_many(site, request.max_rows)
        or other_kind(site, columns, {each.name for each in known})
        or _other_units(site, columns, agreement.units)
        or (other_key(site, agreement.names_key) if known else None)
        or _lacks(site, columns, agreement.held(site), request.private)
    )
    if refusal:
        return refusal, []
    notes = respellings + site_notes(agreement, site)
    before = agreement.rows.get(site.name, site.n_rows)
    if site.n_rows != before:
        notes.append(
            f"{site.name}: is back with {rows_text(site.n_rows)}, it had {before}"
        )
    return None, notes


def _declared(request: AgreementRequest) -> tuple[str, ...]:
    return tuple(each.name for each in request.categories)


def _named(request: AgreementRequest) -> tuple[str, ...]:
    """Return the columns whose spelling the coordinator has chosen."""
    bounded = request.scale if isinstance(request.scale, Mapping) else ()
    names = (*(request.columns or ()), *bounded, *_declared(request))
    return tuple(dict.fromkeys(names))


def _fitting(
    request: AgreementRequest,
    columns: tuple[str, ...],
    kinds: frozenset[str],
    sites: Sequence[Announcement],
    refusals: dict[str, str],
) -> tuple[list[Announcement], tuple[Category, ...], dict[str, str]]:
    """Return the sites that fit, their categories, and notes on columns left out.

    Without a column somebody may have too little: all is asked again.
    """
    fitting = _alike(columns, sites, refusals, request.private)
    if not fitting:
        return [], (), {}
    categories, useless = settled_levels(request, columns, fitting, kinds)
    if not useless:
        return fitting, categories, {}
    left = tuple(column for column in columns if column not in useless)
    fitting, categories, more = _fitting(request, left, kinds, fitting, refusals)
    return fitting, categories, useless | more


def _alike(
    columns: tuple[str, ...],
    sites: Sequence[Announcement],
    refusals: dict[str, str],
    private: bool,
) -> list[Announcement]:
    """Return the sites that have the columns, in the same units, and the same key.

    Who goes may leave others with a column that too few have: all is asked again.
    """
    have = Counter(column for site in sites for column in site.columns)
    left = _sift(sites, refusals, lambda site: _lacks(site, columns, have, private))
    units = declared_units(columns, left)
    left = _sift(left, refusals, lambda site: _other_units(site, columns, units))
    mark = usual_key(left)
    left = _sift(left, refusals, lambda site: other_key(site, mark))
    if len(left) == len(sites):
        return left
    return _alike(columns, left, refusals, private)


def _sift(
    sites: Sequence[Announcement],
    refusals: dict[str, str],
    reason: Callable[[Announcement], str | None],
) -> list[Announcement]:
    """Return the sites without a reason against them; the others' are written down."""
    kept = []
    for site in sites:
        line = reason(site)
        if line is None:
            kept.append(site)
        else:
            refusals[site.name] = line
    return kept


def _common(sites: Sequence[Announcement]) -> tuple[str, ...]:
    """Return the columns that more than half of the sites have; see `settle`."""
    times = Counter(column for site in sites for column in site.columns)
    common = {column for column, n in times.items() if 2 * n > len(sites)}
    ranked = sorted(
        sites, key=lambda site: (-len(common.intersection(site.columns)), site.name)
    )
    order = dict.fromkeys(column for site in ranked for column in site.columns)
    return tuple(column for column in order if column in common)


# ------------------------------------------- why a site is refused, and what to do


def _namesakes(sites: Sequence[Announcement]) -> dict[str, str]:
    """Return refusals of all sites whose names are the same, or nearly."""
    times = Counter(site.name.casefold() for site in sites)
    return {
        name: f"{times[name.casefold()]} sites are called {name} (in upper or lower "
        "case): give each a name of its own"
        for name in sorted(site.name for site in sites)
        if times[name.casefold()] > 1
    }


def _resembles(name: str, known: Mapping[str, int]) -> str | None:
    """Return a line that names the site this one could be taken for."""
    for other in known:
        if name != other and name.casefold() == other.casefold():
            return f"{name} differs only by case from {other}: choose another name"
    return None


def _too_few(site: Announcement, min_rows: int) -> str | None:
    """Return a line on how many rows a site needs."""
    fewest = max(min_rows, 1)
    if site.n_rows >= fewest:
        return None
    return (
        f"{site.name} has {rows_text(site.n_rows)}, a site needs at least {fewest}: "
        "add rows or leave the site out"
    )


def _too_many(site: Announcement, max_rows: int) -> str | None:
    """Return a line on how many rows a site may have."""
    if site.n_rows <= max_rows:
        return None
    return too_many_rows(site.name, site.n_rows, max_rows)


def _lacks(
    site: Announcement,
    columns: Sequence[str],
    have: Mapping[str, int],
    private: bool,
) -> str | None:
    """Return a line that names the agreed columns this site has to have.

    `have` are the numbers of sites that have a column.
    """
    if not columns:
        return (
            f"{site.name} has {quoted(site.columns)}, but more than half of the sites "
            "have no column in common: give the same columns the same names"
        )
    agreed, lacking = set(columns), lacks(site, columns)
    fillable = not private and all(have.get(column, 0) >= HOLDERS for column in lacking)
    if not lacking or (site.may_lack and fillable and len(lacking) < len(columns)):
        return None
    spare = {plain_name(c): c for c in reversed(site.columns) if c not in agreed}
    near = [spare.get(plain_name(column)) for column in lacking]
    parts = [
        repr(column) if other is None else f"{column!r} (it has {other!r})"
        for column, other in zip(lacking, near, strict=True)
    ]
    what, it = ("column", "it") if len(lacking) == 1 else ("columns", "them")
    if None not in near:
        advice = "rename"
    elif any(near):
        advice = "rename or add"
    else:
        advice = "add"
    line = f"{site.name} lacks {what} {listed(parts)}: {advice} {it}"
    may_fill = fillable and advice == "add"
    return f"{line}, or join with --missing impute" if may_fill else line


def _other_units(
    site: Announcement, columns: Sequence[str], units: Sequence[str]
) -> str | None:
    """Return a line that names the columns this site declares in another unit."""
    own = dict(zip(site.columns, site.units, strict=True))
    wrong = [
        f"{column!r} in {own[column]}, the others in {unit}"
        for column, unit in zip(columns, units, strict=True)
        if own.get(column) and unit and own[column] != unit
    ]
    if not wrong:
        return None
    it = "it" if len(wrong) == 1 else "them"
    return f"{site.name} gives {listed(wrong, '; ')}: convert {it}"
