# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in its folder, written so that nothing is ever half there.

Files are written beside their place and moved into it; ``result.json`` comes last, so
a folder that has one holds a whole result.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from afcl import __version__
from afcl._typing import ClientId, Ints
from afcl.core.protocol import Clustering, Trust
from afcl.data.columns import CLUSTER
from afcl.data.date_parts import named_places
from afcl.data.features import Embedding, Feature
from afcl.data.ids import Ids
from afcl.durable import in_words, remove, replacing
from afcl.exceptions import InputError
from afcl.occupied import in_its_way
from afcl.owner_only import make_folder, owner_only
from afcl.privacy import small_sites
from afcl.runtime.gap_files import describe_gaps
from afcl.runtime.profile_files import describe_profiles
from afcl.runtime.shape_files import CELLS, cell_table, describe_shape
from afcl.runtime.simulate import Outcome, sizes_of
from afcl.runtime.spec import Finished, Tally
from afcl.scale import Box
from afcl.texts import csv_cell

RUN = "run.json"
RESULT = "result.json"
TRACE = "trace.jsonl"
JOURNAL = "journal.bin"
LABELS = "labels"
#: Labels that are turned into text together.
LINES = 65_536
#: Everything a run may write; nothing else in a folder is ever touched.
OWN = (
    *(RUN, RESULT, TRACE, JOURNAL, LABELS),
    *("centers.csv", "path.csv", CELLS, "report.html"),
)


def write_text(path: Path, text: str, private: bool = False) -> None:
    """Write a file so that it is there whole or not at all.

    What is `private`, and the folders made for it, is for the owner alone.
    """
    write_parts(path, [text], private)


def write_parts(path: Path, texts: Iterable[str], private: bool = False) -> None:
    """Write a file as :func:`write_text` does, of texts that come one by one."""
    with _whole(path, private) as file:
        for text in texts:
            file.write(text)


@contextmanager
def _whole(path: Path, private: bool) -> Iterator[IO[str]]:
    """Open a file beside its place; it is moved there when all went well."""
    _make(path.parent, private)
    with replacing(path, opener=owner_only if private else None) as file:
        yield file


def _make(folder: Path, private: bool) -> None:
    try:
        if private:
            make_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise in_its_way(folder) from error
    except OSError as error:
        raise InputError(
            f"no folder can be made there ({in_words(error)}): "
            "choose another one with --out"
        ) from error


def fingerprint(inputs: Sequence[str], parameters: Mapping[str, Any]) -> str:
    """Return the identity of a run: its inputs and everything that steers it."""
    content = json.dumps([list(inputs), dict(parameters)], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def open_folder(
    folder: Path, identity: str, force: bool, command: str = ""
) -> dict[str, Any] | None:
    """Claim `folder` for the run `identity`; return its result if it is finished.

    The `command` is remembered beside it, for whoever reads the page. A folder that
    holds another run is refused unless `force`, which removes that run.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    held = [folder / name for name in OWN if (folder / name).exists()]
    if held and force:
        for path in (*held, *folder.glob(f"{Path(JOURNAL).stem}.damaged-*")):
            _remove(path)
        held = []
    if held and _identity(folder) != identity:
        raise InputError(
            f"{folder} holds another run (other inputs or parameters): "
            "choose another folder with --out, or replace it with --force"
        )
    if (folder / RESULT).exists():
        return read_result(folder)
    known = {"identity": identity, **({"command": command} if command else {})}
    write_text(folder / RUN, json.dumps(known) + "\n")
    return None


def _remove(path: Path) -> None:
    """Remove a file of a run, or its labels; what others put among these stays."""
    if not path.is_dir():
        path.unlink()
        return
    for labels in path.glob("*.csv"):
        labels.unlink()
    if not any(path.iterdir()):
        path.rmdir()


def _identity(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / RUN).read_text())["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def versions() -> dict[str, str]:
    """Return the versions a result was made with."""
    names = ("numpy", "numba", "scikit-learn", "polars")
    own = {"afcl": __version__, "python": platform.python_version()}
    return {**own, **{name: version(name) for name in names}}


def describe(
    finished: Finished,
    clustering: Clustering,
    columns: Sequence[str],
    sites: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Any],
    features: Sequence[Feature] = (),
) -> dict[str, Any]:
    """Return the content of ``result.json``: no row and no label.

    Parameters
    ----------
    finished
        The run.
    clustering
        Its answer, clusters in the order in which they are numbered.
    columns
        Names of the columns.
    sites
        What is said of every site, see :func:`describe_site`.
    parameters
        What the run was asked for.
    features
        The categories among the columns.
    """
    box, centers = finished.terms.box, clustering.centers
    return {
        "n_clusters": clustering.k,
        "columns": list(columns),
        "centers": None if centers is None else box.unscale(centers).tolist(),
        "sizes": [round(size) for size in clustering.sizes.tolist()],
        "scores": clustering.scores,
        "path": [{"k": level.k, "scores": level.scores} for level in clustering.path],
        "sites": list(sites),
        "tree": tree_of(clustering),
        "rounds": finished.rounds,
        "note": clustering.note,
        "notes": [event["text"] for event in finished.trace.of("note")],
        "warnings": small_sites([s["rows"] for s in sites], clustering.k, parameters),
        **describe_trust(clustering.trust),
        **describe_shape(clustering, box, parameters),
        "profiles": describe_profiles(clustering, box, columns, features),
        "scale": _described(box),
        "parameters": dict(parameters),
        "versions": versions(),
    }


def _described(box: Box) -> dict[str, Any]:
    walls = {"walls": True} if box.walls else {}
    return {"low": box.low.tolist(), "span": box.span.tolist(), **walls}


def describe_trust(trust: Trust | None) -> dict[str, Any]:
    """Return what ``result.json`` says of how far the answer can be believed."""
    if trust is None:
        return {"structure": None, "confidence": None, "levels": []}
    return {
        "structure": {"verdict": trust.verdict, "gain": trust.gain},
        "confidence": {
            "k": trust.confidence,
            "by_k": {str(k): share for k, share in trust.shares},
            "clusters": list(trust.stabilities),
        },
        "levels": list(trust.levels),
    }


def describe_site(finished: Finished, client: ClientId, name: str) -> dict[str, Any]:
    """Return what ``result.json`` says of a site; nothing came of one never heard."""
    tally = finished.tallies.get(client, Tally())
    return {
        "name": name,
        "rows": tally.rows,
        "messages": tally.messages,
        "bytes": tally.bytes,
        "rejected": finished.rejected.get(client, 0),
    }


def describe_simulated(
    outcome: Outcome,
    names: Sequence[str],
    columns: Sequence[str],
    parameters: Mapping[str, Any],
    features: Sequence[Feature] = (),
    gaps: Sequence[Mapping[str, int]] = (),
) -> dict[str, Any]:
    """Return the content of ``result.json`` where everybody's labels are known.

    `gaps` are every site's cells without a value, by column of its file.
    """
    clustering, finished = outcome.clustering, outcome.finished
    sites = []
    for client, (name, labels) in enumerate(zip(names, outcome.labels, strict=True)):
        sizes = sizes_of(labels, clustering.k).tolist()
        known = describe_site(finished, client, name)
        aside = outcome.set_aside[client] if outcome.set_aside else 0
        known |= {"set_aside": aside} if aside else {}
        if gaps:
            filled = outcome.filled[client] if outcome.filled else None
            known |= describe_gaps(gaps[client], filled, columns, features)
        sites.append({**known, "rows": sum(sizes), "sizes": sizes})
    result = describe(finished, clustering, columns, sites, parameters, features)
    result["features"] = describe_features(features, result)
    return result


def embedding_of(result: Mapping[str, Any]) -> Embedding | None:
    """Return how files became tables of numbers; None: they were all numbers."""
    unknown = [f["name"] for f in result.get("features", ()) if f.get("hashed")]
    if unknown:
        raise InputError(
            f"the levels of {unknown[0]!r} are known to the sites alone: take the "
            "result of one of them"
        )
    features = tuple(map(Feature.of, result.get("features", ())))
    dates = tuple(result.get("dates", ()))
    if not (features or dates):
        return None
    return Embedding.of_names(result["columns"], features, dates)


def describe_features(
    features: Sequence[Feature], result: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what ``result.json`` says of categories.

    Of levels with an order it has the one that every centre is nearest to; the centres
    themselves have mean ranks there. Of parts of dates that go round likewise, and how
    far the rows of a cluster agree on it.
    """
    found = []
    for feature in features:
        content = feature.content()
        if feature.ordered and result["centers"] is not None:
            place = result["columns"].index(feature.name)
            ranks = [center[place] for center in result["centers"]]
            content["centers"] = [feature.nearest(rank) for rank in ranks]
        if feature.parts and result["centers"] is not None:
            where = (feature.name, feature.levels, result["columns"])
            content["centers"] = named_places(*where, result["centers"])
        found.append(content)
    return found


def tree_of(clustering: Clustering) -> dict[str, Any] | None:
    """Return the merge tree of the seeds as ``result.json`` keeps it.

    Leaves are numbered from 0, the i-th merge makes node ``len(sizes) + i``. The tree
    tells the size of a leaf where it joins a bigger node; of two leaves that join each
    other it tells the sum alone, and their own sizes are None.
    """
    merges = clustering.merges
    if not merges:
        return None
    leaves = len(merges) + 1
    known: list[int | None] = [None] * leaves + [round(m.size) for m in merges]
    for merge in merges:
        for node, other in ((merge.left, merge.right), (merge.right, merge.left)):
            beside = known[other]
            if node < leaves and other >= leaves and beside is not None:
                known[node] = round(merge.size) - beside
    return {
        "sizes": known[:leaves],
        "merges": [
            [m.left, m.right, float(f"{m.cost:.6g}"), round(m.size)] for m in merges
        ],
    }


def write_result(
    folder: Path,
    result: Mapping[str, Any],
    labels: Mapping[str, Ints | Iterable[Ints]],
    ids: Mapping[str, Ids | None] | None = None,
) -> None:
    """Write labels, centres, cells if there are, path and, last, ``result.json``.

    A site's labels are one array, or parts that are read as they are written. What the
    rows of a site are called by stands beside them.
    """
    for name, values in labels.items():
        called = None if ids is None else ids.get(name)
        write_labels(folder / LABELS / f"{name}.csv", values, called)
    if result["centers"] is not None:
        numbered = zip(
            range(result["n_clusters"]),
            result["sizes"],
            result["centers"],
            strict=True,
        )
        write_text(
            folder / "centers.csv",
            _csv(
                ["cluster", "rows", *result["columns"]],
                ([number, size, *center] for number, size, center in numbered),
            ),
        )
    (folder / CELLS).unlink(missing_ok=True)  # that of the answer before
    if "cells" in result:
        header, *lines = cell_table(result)
        write_text(folder / CELLS, _csv(header, lines))
    indices = list(result["path"][0]["scores"]) if result["path"] else []
    levels = (
        [level["k"], *(_blank(level["scores"][name]) for name in indices)]
        for level in result["path"]
    )
    write_text(folder / "path.csv", _csv(["k", *indices], levels))
    write_result_file(folder, result)
    # Last, for until then it is all there is: the result has to be on the disk.
    remove(folder / JOURNAL)


def write_result_file(
    folder: Path, result: Mapping[str, Any], private: bool = False
) -> None:
    """Write ``result.json``, of which NaN is no part; a site's is `private`."""
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    write_text(folder / RESULT, text, private)


def write_labels(
    path: Path, labels: Ints | Iterable[Ints], ids: Ids | None = None
) -> None:
    """Write a site's labels, a line for every row of its file, for its owner alone."""
    write_parts(path, label_lines(labels, ids), private=True)


def label_lines(labels: Ints | Iterable[Ints], ids: Ids | None = None) -> Iterator[str]:
    """Yield the lines of a file of labels, many at a time; ids stand before labels."""
    parts = [labels] if isinstance(labels, np.ndarray) else labels
    if ids is not None:
        yield from _beside(ids, parts)
        return
    yield f"{CLUSTER}\n"
    for part in parts:
        for start in range(0, part.shape[0], LINES):
            few = part[start : start + LINES].tolist()
            yield "".join([f"{label}\n" for label in few])


def _beside(ids: Ids, parts: Iterable[Ints]) -> Iterator[str]:
    names = chain.from_iterable(ids.parts())
    labels = chain.from_iterable(part.tolist() for part in parts)
    pairs = zip(names, labels, strict=True)
    yield _csv([ids.name, CLUSTER], ())
    try:
        while few := list(islice(pairs, LINES)):
            yield _csv(few[0], few[1:])
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the column {ids.name} has changed while it was read; start again"
        ) from None


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _csv(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([csv_cell(cell) for cell in row] for row in (header, *rows))
    return out.getvalue()


def read_result(folder: Path) -> dict[str, Any]:
    """Read the result of a finished run."""
    path = folder / RESULT
    if not path.is_file():
        hint = "finish it with the same 'afcl run' command"
        if not (folder / RUN).exists():
            hint = "give the folder that 'afcl run --out' wrote"
        raise InputError(f"{folder} holds no finished run: {hint}")
    try:
        result: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({error}): run 'afcl run' again with --force"
        ) from error
    return result


def box_of(result: Mapping[str, Any]) -> Box:
    """Return the agreed scale of a finished run."""
    scale = result["scale"]
    return Box(np.array(scale["low"]), np.array(scale["span"]), scale.get("walls"))
