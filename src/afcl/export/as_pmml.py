# SPDX-License-Identifier: Apache-2.0
"""PMML 4.4: a ClusteringModel with centres and the scaling of every column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from afcl.exceptions import InputError
from afcl.runtime.results import box_of

VERSION = "4.4"
NAMESPACE = "http://www.dmg.org/PMML-4_4"


def content(result: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    root = document_of(result)
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def document_of(result: Mapping[str, Any]) -> Element:
    """Return the document: a field per column, scaled by two points, and centres."""
    box = box_of(result)
    if box.walls:
        raise InputError(
            "PMML cannot say what becomes of values behind the walls of this scale: "
            "export to onnx or json"
        )
    columns = result["columns"]
    root = Element("PMML", {"version": VERSION, "xmlns": NAMESPACE})
    header = SubElement(root, "Header", description="Federated clustering")
    SubElement(
        header, "Application", name="afcl", version=str(result["versions"]["afcl"])
    )
    fields = SubElement(root, "DataDictionary", numberOfFields=str(len(columns)))
    for name in columns:
        SubElement(
            fields, "DataField", name=name, optype="continuous", dataType="double"
        )
    model = SubElement(
        root,
        "ClusteringModel",
        modelName="afcl",
        functionName="clustering",
        modelClass="centerBased",
        numberOfClusters=str(result["n_clusters"]),
    )
    schema = SubElement(model, "MiningSchema")
    for name in columns:
        SubElement(schema, "MiningField", name=name)
    output = SubElement(model, "Output")
    SubElement(
        output,
        "OutputField",
        name="cluster",
        optype="categorical",
        dataType="string",
        feature="predictedValue",
    )
    _transformations(model, result)
    _clusters(model, result)
    return root


def _scaled_name(name: str) -> str:
    return f"scaled({name})"


def _transformations(model: Element, result: Mapping[str, Any]) -> None:
    """Write every column's scaling: a line through (low, 0) and (low + span, 1)."""
    local = SubElement(model, "LocalTransformations")
    scale = result["scale"]
    triples = zip(result["columns"], scale["low"], scale["span"], strict=True)
    for name, low, span in triples:
        derived = SubElement(
            local,
            "DerivedField",
            name=_scaled_name(name),
            optype="continuous",
            dataType="double",
        )
        norm = SubElement(derived, "NormContinuous", field=name, outliers="asIs")
        SubElement(norm, "LinearNorm", orig=repr(low), norm="0")
        SubElement(norm, "LinearNorm", orig=repr(low + span), norm="1")


def _clusters(model: Element, result: Mapping[str, Any]) -> None:
    """Write how distances are taken, and the centres in agreed units."""
    measure = SubElement(model, "ComparisonMeasure", kind="distance")
    SubElement(measure, "squaredEuclidean")
    for name in result["columns"]:
        SubElement(
            model,
            "ClusteringField",
            field=_scaled_name(name),
            compareFunction="absDiff",
        )
    centers = box_of(result).scale(np.array(result["centers"], dtype=np.float64))
    pairs = zip(centers.tolist(), result["sizes"], strict=True)
    for number, (center, size) in enumerate(pairs):
        cluster = SubElement(
            model, "Cluster", id=str(number), name=f"cluster {number}", size=str(size)
        )
        values = SubElement(cluster, "Array", n=str(len(center)), type="real")
        values.text = " ".join(map(repr, center))
