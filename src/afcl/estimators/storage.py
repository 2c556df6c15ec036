# SPDX-License-Identifier: Apache-2.0
"""Fitted models that travel: what is kept of them, and the files they are saved as.

A saved model is JSON for its description and NPZ for its arrays, never a pickle; a
model that a user pickles leaves the same things behind.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from afcl._typing import AnyArray, Ints
from afcl.core.lineage import Lineage
from afcl.core.protocol import Clustering, Merge, PathLevel, Trust
from afcl.data.features import Embedding, Feature
from afcl.durable import replacing
from afcl.estimators import shape, trust
from afcl.exceptions import InputError
from afcl.scale import Box
from afcl.trace import Trace

if TYPE_CHECKING:
    from afcl.estimators.federated import FederatedClusterer

    ModelT = TypeVar("ModelT", bound=FederatedClusterer)

#: Of the files; a change that old readers cannot read raises it.
FORMAT = 1
#: Of models whose clusters are not round: who knows centres only cannot read them.
CONNECTED_FORMAT = 2
#: What arrays of the last answer, as the next is compared with it, begin with.
LAST = "last_"


def save(model: FederatedClusterer, folder: Path) -> None:
    """Write `model` to `folder`; the JSON file comes last and makes it valid."""
    held = _held(model.client_labels_)
    arrays: dict[str, AnyArray] = {
        **({} if model.labels_ is None else {"labels": model.labels_}),
        **_known("spreads", model.cluster_spreads_),
        "client_rows": np.array([len(labels) for labels in held]),
        "client_labels": np.concatenate(held),
        "rank": model._rank,
        "box_low": model._box.low,
        "box_span": model._box.span,
        "box_walls": np.array(bool(model._box.walls)),
    }
    description = {
        "format": FORMAT if model._raw.connected is None else CONNECTED_FORMAT,
        "class": type(model).__name__,
        "params": plain_params(model),
        "n_features": model.n_features_in_,
        "embedding": model._embedding and asdict(model._embedding),
        "feature_names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "n_rounds": model.n_rounds_,
        "upload_bytes": model.upload_bytes_,
        "privacy": model.privacy_,
        "trace": model.trace_.events,
        "clustering": _dump(model._clustering, "final", arrays),
        "raw": _dump(model._raw, "raw", arrays),
        "seed": model._seed,
        "roster": model._roster,
        "result": model._result,
        "times": model._times,
        "owners": model._owners,
    }
    description["lineage"], last = model._lineage.parts()
    arrays |= {f"{LAST}{name}": array for name, array in last.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "arrays.npz", "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    with replacing(folder / "model.json") as file:
        file.write(json.dumps(description))


def load(kind: type[ModelT], folder: Path) -> ModelT:
    """Read the model in `folder`, which must be of class `kind`."""
    try:
        description = json.loads((folder / "model.json").read_text())
        with np.load(folder / "arrays.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no saved model: {error}") from error
    found, written = description.get("class"), description.get("format")
    if written not in (FORMAT, CONNECTED_FORMAT) or found != kind.__name__:
        raise InputError(
            f"{folder} holds a {found} of format {written}, "
            f"not a {kind.__name__} of format {FORMAT} or {CONNECTED_FORMAT}"
        )
    model = kind(**_params(description["params"]))
    model.n_features_in_ = description["n_features"]
    if description["feature_names"]:
        model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    model._embedding = _embedding(description.get("embedding"))
    model.n_rounds_ = description["n_rounds"]
    model.upload_bytes_ = description["upload_bytes"]
    model.privacy_ = description.get("privacy")  # older files do not tell
    model.trace_ = Trace()
    model.trace_.events = description["trace"]
    model.labels_ = arrays.get("labels")
    model.cluster_spreads_ = arrays.get("spreads")  # older files have none
    model._result = description.get("result")
    model._times = description.get("times")
    model._owners = description.get("owners")
    ends = np.cumsum(arrays["client_rows"])[:-1]
    model.client_labels_ = np.split(arrays["client_labels"], ends)
    model._fit_rows = None
    model._fitted(
        _read(description["clustering"], "final", arrays),
        _read(description["raw"], "raw", arrays),
        arrays["rank"],
    )
    walls = True if arrays.get("box_walls") else None  # older files have none
    model._unscale(Box(arrays["box_low"], arrays["box_span"], walls))
    if "lineage" in description:  # older files have none
        model._seed, model._roster = description["seed"], description["roster"]
        model._tables = {}
        last = {
            name.removeprefix(LAST): array
            for name, array in arrays.items()
            if name.startswith(LAST)
        }
        model._follow(Lineage.of_parts(description["lineage"], last))
    return model


def result_of(model: FederatedClusterer) -> dict[str, Any]:
    """Return what ``result.json`` holds of a run; older models do not know it."""
    if model._result is None:
        raise InputError("this model is of an older version: fit it anew")
    return model._result


def without_rows(state: dict[str, Any]) -> dict[str, Any]:
    """Return a model's attributes without training rows and what is computed from them.

    The `pooled-` references keep theirs: their server has all rows by intention.
    """
    attributes = dict(state)
    if "_fit_rows" in attributes:
        attributes["_fit_rows"] = None
    if "_tables" in attributes:
        attributes["_tables"] = {}
    if "client_labels_" in attributes:
        attributes["client_labels_"] = _held(attributes["client_labels_"])
    return attributes


def up_to_date(state: dict[str, Any]) -> dict[str, Any]:
    """Return a pickle's attributes as of today: without rows, with what is new since.

    Older pickles know nothing of clusters that are not round, still older ones nothing
    of how far the answer can be believed.
    """
    attributes = without_rows(state)
    if "n_clusters_" not in attributes:
        return attributes
    attributes = {"cluster_spreads_": None, "_result": None, **attributes}
    if "shape_" not in attributes:
        attributes |= _of_round_clusters(attributes)
    if "structure_" in attributes:
        return attributes
    for name in ("_clustering", "_raw"):
        object.__setattr__(attributes[name], "trust", None)
    return {**attributes, **trust.attributes(None)}


def _known(name: str, array: AnyArray | None) -> dict[str, AnyArray]:
    return {} if array is None else {name: array}


def _of_round_clusters(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return what is new of an older model; what it holds is completed in place."""
    for name in ("_clustering", "_raw"):
        for new in ("cells", "connected", "places"):
            object.__setattr__(attributes[name], new, None)
    last = attributes["_lineage"].last if "_lineage" in attributes else None
    if last is not None:
        for new in ("places", "place_labels"):
            object.__setattr__(last, new, None)
    return shape.attributes(attributes["_clustering"], attributes["_box"], None)


def _held(client_labels: list[Any]) -> list[Ints]:
    """Return labels in memory; those kept elsewhere stay there, beside their rows."""
    return [
        labels if isinstance(labels, np.ndarray) else np.empty(0, dtype=np.int64)
        for labels in client_labels
    ]


def plain_params(model: FederatedClusterer) -> dict[str, Any]:
    """Return constructor arguments as JSON; what is not data is left at its default."""
    plain = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray):
            value = value.tolist()
        elif isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, tuple):
            value = [np.asarray(item).tolist() for item in value]
        try:
            plain[name] = json.loads(json.dumps(value))
        except TypeError:
            continue
    return plain


def _params(params: dict[str, Any]) -> dict[str, Any]:
    scale = params.get("scale")
    if isinstance(scale, list):
        params = {**params, "scale": tuple(scale)}
    return params


def _dump(
    clustering: Clustering, prefix: str, arrays: dict[str, AnyArray]
) -> dict[str, Any]:
    """Put the arrays aside under `prefix` and return the rest."""

    def keep(name: str, array: AnyArray | None) -> bool:
        if array is not None:
            arrays[f"{prefix}_{name}"] = array
        return array is not None

    for level in clustering.path:
        keep(f"level{level.k}_centers", level.centers)
        keep(f"level{level.k}_sizes", level.sizes)
    extra = {}
    for name, value in clustering.extra.items():
        if isinstance(value, np.ndarray):
            keep(f"extra_{name}", value)
            value = {"array": True}
        extra[name] = value
    connected, more = shape.dump(clustering)
    for name, array in more.items():
        keep(name, array)
    return {
        "centers": keep("centers", clustering.centers),
        "seeds": keep("seeds", clustering.seeds),
        "sizes": keep("sizes", clustering.sizes),
        "scores": clustering.scores,
        "path": [{"k": level.k, "scores": level.scores} for level in clustering.path],
        "merges": [[m.left, m.right, m.cost, m.size] for m in clustering.merges],
        "extra": extra,
        "note": clustering.note,
        "trust": None if clustering.trust is None else asdict(clustering.trust),
        **({} if connected is None else {"connected": connected}),
    }


def _read(
    description: dict[str, Any], prefix: str, arrays: dict[str, AnyArray]
) -> Clustering:
    def get(name: str) -> Any:
        return arrays.get(f"{prefix}_{name}")

    path = tuple(
        PathLevel(
            level["k"],
            get(f"level{level['k']}_centers"),
            get(f"level{level['k']}_sizes"),
            level["scores"],
        )
        for level in description["path"]
    )
    extra = {
        name: get(f"extra_{name}") if value == {"array": True} else value
        for name, value in description["extra"].items()
    }
    merges = tuple(Merge(*merge) for merge in description["merges"])
    connected, places = shape.read(description.get("connected"), get, merges)
    return Clustering(
        get("centers"),
        get("sizes"),
        description["scores"],
        path,
        get("seeds"),
        merges,
        extra,
        description.get("note", ""),
        _trust(description.get("trust")),
        connected=connected,
        places=places,
    )


def _embedding(known: dict[str, Any] | None) -> Embedding | None:
    """Return it again; older files and those of numbers have none."""
    if known is None:
        return None
    features = tuple(map(Feature.of, known["features"]))
    return Embedding(tuple(known["columns"]), features, tuple(known.get("dates", ())))


def _trust(known: dict[str, Any] | None) -> Trust | None:
    """Return it again; older files do not tell."""
    if known is None:
        return None
    return Trust(
        known["verdict"],
        known["gain"],
        known["confidence"],
        tuple((k, share) for k, share in known["shares"]),
        tuple(known["stabilities"]),
        tuple(known["levels"]),
    )
