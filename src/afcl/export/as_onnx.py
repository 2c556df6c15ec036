# SPDX-License-Identifier: Apache-2.0
"""ONNX: one graph from rows in the units of the data to clusters and distances.

Written node by node: there is no scikit-learn estimator behind an answer that
skl2onnx could convert, and the graph is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from afcl._typing import AnyArray
from afcl.exceptions import InputError
from afcl.runtime.results import box_of
from afcl.scale import FAR_OUT, MIDDLE, RADIUS, Box

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

#: Operators of this version (2022) are known to every runtime that is still in use.
OPSET = 17
#: The format of the file that came with them.
IR = 8
INSTALL = "ONNX files need the package onnx: pip install 'afcl[export]'"


def content(result: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    data: bytes = model_of(result).SerializeToString()
    return data


def model_of(result: Mapping[str, Any]) -> ModelProto:
    """Return the model: input `X`, outputs `cluster` and `distances`."""
    try:
        from onnx import TensorProto, checker, helper
    except ModuleNotFoundError:
        raise InputError(INSTALL) from None
    box = box_of(result)
    centers = box.scale(np.array(result["centers"], dtype=np.float64))
    graph = _Graph()
    scaled, present = _scaled(graph, box)
    squares = _squares(graph, scaled, present, centers)
    graph.add("Sqrt", squares, to="distances")
    nearest = graph.add("ArgMin", squares, axis=1, keepdims=0)
    some = graph.sum_over_columns(present, keepdims=0)
    empty = graph.add("Equal", some, graph.number(0.0))
    graph.add("Where", empty, graph.number(-1, np.int64), nearest, to="cluster")
    k, width = centers.shape
    double, whole = TensorProto.DOUBLE, TensorProto.INT64
    made = helper.make_graph(
        graph.nodes,
        "afcl",
        [helper.make_tensor_value_info("X", double, [None, width])],
        [
            helper.make_tensor_value_info("cluster", whole, [None]),
            helper.make_tensor_value_info("distances", double, [None, k]),
        ],
        graph.constants,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="afcl",
        producer_version=str(result["versions"]["afcl"]),
    )
    properties = {"columns": "\n".join(result["columns"])}
    helper.set_model_props(model, properties)
    checker.check_model(model)
    return model


class _Graph:
    """Nodes and constants as they are added; names are numbered."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add a node and return what its output is called."""
        from onnx import helper

        name = to or f"{operator.lower()}{len(self.nodes)}"
        node = helper.make_node(operator, list(inputs), [name], name, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, array: AnyArray) -> str:
        """Add a constant and return what it is called."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float, kind: type = np.float64) -> str:
        """Add a number and return what it is called."""
        return self.constant(np.array(value, dtype=kind))

    def sum_over_columns(self, name: str, keepdims: int = 1) -> str:
        """Add up every row."""
        return self.add(
            "ReduceSum", name, self.constant(np.array([1])), keepdims=keepdims
        )

    def as_numbers(self, name: str) -> str:
        """Turn true and false into 1 and 0."""
        from onnx import TensorProto, helper

        name_01 = f"{name}_01"
        self.nodes.append(
            helper.make_node("Cast", [name], [name_01], name_01, to=TensorProto.DOUBLE)
        )
        return name_01


def _scaled(graph: _Graph, box: Box) -> tuple[str, str]:
    """Scale rows; return them, 0 where a value is missing, and where there is one."""
    low = graph.constant(box.low)
    gap = graph.add("IsNaN", "X")
    present = graph.as_numbers(graph.add("Not", gap))
    filled = graph.add("Where", gap, low, "X")
    moved = graph.add("Sub", filled, low)
    scaled = graph.add("Div", moved, graph.constant(box.span))
    if box.walls:
        scaled = _within_walls(graph, scaled)
    return graph.add("Mul", scaled, present), present


def _within_walls(graph: _Graph, scaled: str) -> str:
    """Move what lies behind the walls of a box, as :class:`afcl.scale.Box` does."""
    middle = graph.number(MIDDLE)
    side = graph.add("Sub", scaled, middle)
    away = graph.add("Abs", side)
    nothing = graph.add(
        "GreaterOrEqual", graph.add("Sub", away, middle), graph.number(FAR_OUT)
    )
    behind = graph.add(
        "And",
        graph.add("Greater", away, graph.number(RADIUS)),
        graph.add("Not", nothing),
    )
    many = graph.sum_over_columns(graph.as_numbers(behind))
    root = graph.add("Sqrt", graph.add("Max", many, graph.number(1.0)))
    share = graph.add("Div", graph.number(RADIUS), root)
    wall = graph.add("Add", middle, graph.add("Mul", graph.add("Sign", side), share))
    return graph.add("Where", nothing, middle, graph.add("Where", behind, wall, scaled))


def _squares(graph: _Graph, scaled: str, present: str, centers: AnyArray) -> str:
    """Return squared distances over the columns that have a value.

    They are |x|^2 - 2 x.c + |c|^2; values are of the order of 1, so that nothing is
    lost in the difference.
    """
    own = graph.sum_over_columns(graph.add("Mul", scaled, scaled))
    cross = graph.add("MatMul", scaled, graph.constant(-2.0 * centers.T))
    theirs = graph.add("MatMul", present, graph.constant((centers**2).T))
    total = graph.add("Add", graph.add("Add", own, cross), theirs)
    return graph.add("Max", total, graph.number(0.0))
