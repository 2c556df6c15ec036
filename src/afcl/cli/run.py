# SPDX-License-Identifier: Apache-2.0
"""``afcl run``: one file per site, a simulated federation, results in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli import tables
from afcl.cli.check import Strict, refuse
from afcl.cli.command_line import command_line
from afcl.cli.settings import (
    MISSING,
    AtLeastTwo,
    Cohort,
    Device,
    Granularity,
    Holders,
    Seed,
    SeededNoise,
    Shape,
    Stream,
    bounds,
    scale_of,
    settings,
)
from afcl.cli.words import in_words
from afcl.durable import disk_trouble
from afcl.exceptions import PrivacyWarning, SmallClientsWarning, Stopped
from afcl.occupied import occupied
from afcl.registry import CONVEX, SHAPE, criteria, ways_to_write

if TYPE_CHECKING:
    from afcl.core.protocol import AnyMethod
    from afcl.data.features import Feature

Out = Annotated[Path, typer.Option(help="Folder for the results.", metavar="DIR")]
Participation = Annotated[
    str | None,
    typer.Option(help="always, random, a probability, or one per site (.9,.2,1)."),
]
Preset = Annotated[str | None, typer.Option(help="default, paper or matlab.")]
MethodName = Annotated[
    str | None,
    typer.Option(help="A rival instead of AFCL, such as k-fed or any-k:dk++."),
]
Known = Annotated[
    int | None,
    typer.Option(help="Number of clusters, for rivals that must be told."),
]
Privacy = Annotated[
    str | None,
    typer.Option(
        help=f"{ways_to_write('default')}, in quotes where there are brackets; preset "
        f"paper: {ways_to_write('paper')}; matlab: {ways_to_write('matlab')}.",
    ),
]
MinCell = Annotated[
    int | None, typer.Option(help="Smallest group of rows a site may describe (5).")
]
Bounds = Annotated[
    list[str],
    typer.Option(
        help="Public bounds instead of min-max: COLUMN=LOW:HIGH; all columns."
    ),
]
ScaleName = Annotated[
    str | None,
    typer.Option(
        help="How columns are scaled: minmax (by extremes), or robust (by quantiles; "
        "a few far values count as just outside)."
    ),
]
Missing = Annotated[str | None, typer.Option(help=MISSING)]
Seeds = Annotated[int | None, typer.Option(help="Seeds to start from (auto).")]
Most = Annotated[
    int | None, typer.Option(help="Largest number of clusters considered (auto).")
]
Criterion = Annotated[
    str | None, typer.Option(help=f"What chooses k: {', '.join(criteria())}.")
]
Contacts = Annotated[
    int | None,
    typer.Option(help="Messages a site is asked for, its first included (3)."),
]
Rounds = Annotated[int | None, typer.Option(help="Rounds at most (100).")]
Config = Annotated[
    Path | None,
    typer.Option(help="TOML file with these settings; flags override it."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print result.json's content instead of words.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace another run in the folder.")
]


def run(
    context: typer.Context,
    out: Out,
    sites: tables.Sites = None,
    folders: tables.Folders = [],
    participation: Participation = None,
    preset: Preset = None,
    method: MethodName = None,
    n_clusters: Known = None,
    privacy: Privacy = None,
    min_cell: MinCell = None,
    cohort: Cohort = None,
    holders: Holders = None,
    ranges: Bounds = [],
    scale: ScaleName = None,
    seed: Seed = None,
    columns: tables.Columns = [],
    drop: tables.Drop = [],
    numeric_only: tables.NumericOnly = None,
    id: tables.IdColumn = None,
    category: tables.Category = [],
    ordinal: tables.Ordinal = [],
    date: tables.Date = [],
    missing: Missing = None,
    separator: tables.Separator = None,
    decimal: tables.Decimal = None,
    encoding: tables.Encoding = None,
    null: tables.Null = [],
    n_seeds: Seeds = None,
    max_clusters: Most = None,
    criterion: Criterion = None,
    allow_one: AtLeastTwo = None,
    granularity: Granularity = None,
    shape: Shape = None,
    seeded_noise: SeededNoise = None,
    contacts: Contacts = None,
    max_rounds: Rounds = None,
    config: Config = None,
    stream: Stream = None,
    device: Device = "auto",
    strict: Strict = False,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Cluster the rows of several sites together, without pooling them.

    Writes result.json, centers.csv, path.csv, labels/SITE.csv and trace.jsonl; of
    clusters that are not round also cells.csv.

    The same command after an interruption continues where it stopped.
    """
    # The context has what was typed under the names that a TOML file uses.
    chosen = settings(config, context.params)
    result, was_done = cluster_files(
        sites or [], out, chosen, force, stream, folders, strict, device
    )
    if as_json:
        typer.echo(json.dumps(result, indent=2))
        return
    if was_done:
        typer.echo(f"{out} holds this run already; nothing was computed anew.")
    for line in in_words(result):
        typer.echo(line)
    typer.echo(
        f"Labels, centres, path and trace are in {out}; "
        f"look at {out / 'report.html'} in a browser."
    )


def cluster_files(
    paths: list[Path],
    out: Path,
    chosen: dict[str, Any],
    force: bool,
    stream: bool | None = None,
    folders: Sequence[Path] = (),
    strict: bool = False,
    device: str = "auto",
) -> tuple[dict[str, Any], bool]:
    """Run on files and write the folder; say whether it was done already."""
    with occupied(out, "afcl run"), _going_on_later(out):
        return _clustered(paths, out, chosen, force, stream, folders, strict, device)


@contextmanager
def _going_on_later(out: Path) -> Iterator[None]:
    """Say that a run which the disk has stopped goes on, if it has begun."""
    from afcl.runtime.results import RUN

    try:
        yield
    except OSError as error:
        reason = disk_trouble(error)
        if reason is None or not (out / RUN).is_file():
            raise
        raise Stopped(
            f"{reason}; nothing is lost: mend that, and the same command goes on"
        ) from error


def _clustered(
    paths: list[Path],
    out: Path,
    chosen: dict[str, Any],
    force: bool,
    stream: bool | None,
    folders: Sequence[Path],
    strict: bool,
    device: str,
) -> tuple[dict[str, Any], bool]:
    from afcl import __version__
    from afcl.cli.execute import execute
    from afcl.data.features import bounds_of
    from afcl.data.places import site_places
    from afcl.data.sites import open_sites
    from afcl.data.suspicions import find_suspicions, shown
    from afcl.methods.presets import at_default_level
    from afcl.privacy import parse_level
    from afcl.runtime.arrays import AUTO, check_device, moved
    from afcl.runtime.heartbeat import Heartbeat
    from afcl.runtime.requirements import reads_in_parts, requirements
    from afcl.runtime.results import fingerprint, open_folder
    from afcl.runtime.schedule import as_schedule
    from afcl.runtime.who_speaks import rows_that_speak

    check_device([], device)
    method, options, level = chosen_method(chosen)
    public = bounds(chosen["ranges"])
    scale: Any = scale_of(chosen["scale"], chosen["ranges"])
    places, notes = site_places(paths, folders)
    asked = options
    options, reason = at_default_level(method, asked, len(places))
    level = options["privacy"] if reason else level
    requirements(method, method.parameters(**options), public or scale, len(places))
    least = 1
    if level not in ("exact", "affine", "rival"):
        least = max(chosen["min_cell"], parse_level(level).group)
    sites = open_sites(
        places,
        **tables.table_options(chosen),
        min_rows=0,
        least=least,
        stream=stream,
        whole="" if reads_in_parts(level) else _needing(chosen, level),
    )
    own = bounds_of(sites.columns, sites.features)
    speak = [rows_that_speak(s.rows, chosen["missing"], own) for s in sites.tables]
    enough = sum(n >= least for n in speak)
    if reason and enough < len(places):
        options, reason = at_default_level(method, asked, max(1, enough))
        level = options["privacy"]
    check_levels(sites.features, chosen, level)
    if public is not None:
        scale = in_order(public, sites.columns, sites.features)
    as_schedule(chosen["participation"]).bind(len(sites.tables), chosen["seed"])
    found = find_suspicions(sites, sites.dates)
    if strict:
        refuse(found)
    parameters = {**chosen, "privacy": level}
    if reason:
        parameters["privacy_reason"] = reason
    if device != AUTO:
        parameters["device"] = device
    identity = fingerprint(
        [f"{s.name} {s.fingerprint()}" for s in sites.tables],
        {**parameters, "version": __version__},
    )
    rows = moved([source.rows for source in sites.tables], device)
    finished = open_folder(out, identity, force, command_line())
    if finished is not None:
        return finished, True
    for note in (*notes, *sites.notes, *shown(found)):
        print(f"note: {note}", file=sys.stderr)
    _warn([source.shape[0] for source in sites.tables], chosen["min_cell"], level)
    # Where the rows must not tell anything, what was found in them is for the eyes of
    # their owners only.
    private = _is_private(level)
    published = () if private else found
    with Heartbeat(out):
        run = (sites, rows, out, method, options, parameters, identity, scale)
        result = execute(*run, published, private)
    warn_of_fine(result)
    return result, False


def _warn(sizes: Sequence[int], min_cell: int, level: str) -> None:
    """Warn of a level that hides nothing, and of sites too small for theirs."""
    from afcl.privacy import EXACT_WARNING, too_small

    if level == "exact":
        print(f"warning: {PrivacyWarning(EXACT_WARNING)}", file=sys.stderr)
    small = None if level == "rival" else too_small(sizes, min_cell, level)
    if small is not None:
        print(f"warning: {SmallClientsWarning(small)}", file=sys.stderr)


def _needing(chosen: dict[str, Any], level: str) -> str:
    """Name what needs all rows in memory."""
    if level == "rival":
        return f"method {chosen['method']}"
    if chosen["preset"] != "default":
        return f"preset {chosen['preset']}"
    return f"privacy level {level}"


def _is_private(level: str) -> bool:
    """Whether what is written down must not depend on single rows."""
    from afcl.privacy import parse_level

    return level not in ("exact", "affine", "rival") and parse_level(level).private


def check_levels(
    features: Sequence[Feature], chosen: dict[str, Any], level: str
) -> None:
    """Refuse levels that were taken from the rows, where these must not tell them."""
    from afcl.data.spelling import name_key
    from afcl.exceptions import InputError

    if not _is_private(level):
        return
    named = tables.categories(chosen["category"])
    declared = {name_key(name) for name, levels in named.items() if levels}
    found = [
        each.name
        for each in features
        if each.shares and name_key(each.name) not in declared
    ]
    if found:
        raise InputError(
            f"at {level} the levels of {found[0]} must not come from the rows: give "
            f"--category '{found[0]}=LEVEL|LEVEL', or leave it out (--drop)"
        )


def in_order(
    public: dict[str, tuple[float, float]],
    columns: Sequence[str],
    features: Sequence[Feature] = (),
) -> tuple[list[float], list[float]]:
    """Return the bounds of every column, low and high; categories have their own."""
    from afcl.data.spelling import by_column
    from afcl.exceptions import InputError

    public = by_column("--ranges", public, columns)
    for each in features:
        own = zip(each.columns, each.bounds, strict=True)
        public |= {name: pair for name, pair in own if not isnan(pair[0])}
    lacking = [name for name in columns if name not in public]
    if lacking:
        raise InputError(
            f"--ranges: give bounds for {lacking[0]} too, or for no column"
        )
    pairs = [public[name] for name in columns]
    return [low for low, _ in pairs], [high for _, high in pairs]


def chosen_method(chosen: dict[str, Any]) -> tuple[AnyMethod, dict[str, Any], str]:
    """Return the method, its options and what it sends: a level, or the rival's own."""
    from afcl.exceptions import InputError
    from afcl.methods import get_method
    from afcl.methods.presets import resolve

    if chosen["method"] == "afcl":
        if chosen["n_clusters"] is not None:
            raise InputError(
                "AFCL finds the number of clusters by itself: leave out --n-clusters, "
                "or name another --method"
            )
        return resolve(chosen)
    if chosen["preset"] != "default" or chosen["privacy"] is not None:
        raise InputError("--preset and --privacy belong to AFCL: leave out --method")
    if chosen["shape"] not in (CONVEX, SHAPE):
        raise InputError("--shape belongs to AFCL: leave it out, or --method")
    known = chosen["n_clusters"] is not None
    options = {"n_clusters": chosen["n_clusters"]} if known else {}
    return get_method(chosen["method"]), options, "rival"


def warn_of_fine(result: dict[str, Any]) -> None:
    """Say so if there are more clusters than the cells of the sites can show."""
    from afcl.privacy import too_fine

    parameters, k = result["parameters"], result["n_clusters"]
    if parameters.get("privacy", "rival") == "rival":
        return
    sizes = [site["rows"] for site in result["sites"]]
    note = too_fine(sizes, k, parameters["min_cell"], parameters["privacy"])
    if note is not None:
        print(f"warning: {SmallClientsWarning(note)}", file=sys.stderr)
