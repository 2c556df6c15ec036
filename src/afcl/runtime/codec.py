# SPDX-License-Identifier: Apache-2.0
"""One codec for everything that crosses a wire or lands in a checkpoint.

Layout: the four bytes ``AFCL``, one byte of format version, the header's length
(u32, little endian), the header (JSON: the message as a tree, arrays as references)
and the arrays' bytes one after the other. Only registered payloads, tuples, plain
scalars and arrays of four dtypes exist, and every field is of the type its payload
declares; nothing is ever unpickled or executed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from afcl._typing import AnyArray
from afcl.core.messages import PAYLOADS
from afcl.exceptions import CodecError
from afcl.methods import load_payloads

MAGIC = b"AFCL"
FORMAT = 1
DTYPES = ("<f8", "<i8", "<f4", "|b1")
DIMENSIONS = 2
#: Refused before anything is parsed.
LIMIT = 1 << 30
_HEAD = struct.Struct("<4sBI")


def encode(message: Any) -> bytes:
    """Return the bytes of a registered payload."""
    buffers: list[bytes] = []
    tree = _to_tree(message, buffers, [0])
    header = json.dumps(tree, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(MAGIC, FORMAT, len(header)), header, *buffers))


def _to_tree(value: Any, buffers: list[bytes], offset: list[int]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        dtype = value.dtype.newbyteorder("<").str
        if dtype not in DTYPES:
            raise CodecError(f"arrays of dtype {value.dtype} do not travel")
        if value.ndim > DIMENSIONS:
            raise CodecError(f"arrays of {value.ndim} dimensions do not travel")
        data = np.ascontiguousarray(value).astype(dtype, copy=False).tobytes()
        start = offset[0]
        buffers.append(data)
        offset[0] += len(data)
        return {"array": dtype, "shape": list(value.shape), "at": start}
    if isinstance(value, tuple):
        return [_to_tree(item, buffers, offset) for item in value]
    name = type(value).__name__
    if PAYLOADS.get(name) is type(value):
        fields = {
            field.name: _to_tree(getattr(value, field.name), buffers, offset)
            for field in dataclasses.fields(value)
        }
        return {"type": name, "fields": fields}
    raise CodecError(f"a {name} does not travel")


def decode(data: bytes, limit: int = LIMIT) -> Any:
    """Return the payload behind `data`, or raise :class:`CodecError`."""
    if len(data) > limit:
        raise CodecError(f"message of {len(data)} bytes exceeds the limit of {limit}")
    if len(data) < _HEAD.size:
        raise CodecError("message is cut short")
    magic, version, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CodecError("not an afcl message")
    if version != FORMAT:
        raise CodecError(f"message format {version} is not format {FORMAT}")
    start = _HEAD.size + length
    if start > len(data):
        raise CodecError("message is cut short")
    try:
        tree = json.loads(data[_HEAD.size : start])
        return _from_tree(tree, memoryview(data)[start:])
    except CodecError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CodecError(f"malformed message: {error}") from error


def _from_tree(tree: Any, buffer: memoryview) -> Any:
    if isinstance(tree, list):
        return tuple(_from_tree(item, buffer) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return _to_array(tree, buffer)
    if tree["type"] not in PAYLOADS:
        load_payloads()
    kind = PAYLOADS.get(tree["type"])
    if kind is None:
        raise CodecError(f"unknown message type {tree['type']!r}")
    said = tree["fields"]
    if not isinstance(said, dict):
        raise CodecError(f"a {kind.__name__} without fields")
    fields = {name: _from_tree(item, buffer) for name, item in said.items()}
    hints = _hints(tree["type"])
    for name, value in fields.items():
        if name in hints and not _fits(value, hints[name]):
            raise CodecError(
                f"{name} of a {kind.__name__} cannot be a {type(value).__name__}"
            )
    return kind(**fields)


@cache
def _hints(name: str) -> dict[str, Any]:
    return get_type_hints(PAYLOADS[name])


def _fits(value: Any, hint: Any) -> bool:
    """Whether a decoded value is of the type a payload declares for it."""
    if hint is Any:
        return True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return isinstance(value, tuple) and all(_fits(v, arguments[0]) for v in value)
    if hint is float:
        return type(value) in (float, int)
    if hint in (int, bool):
        return type(value) is hint
    return isinstance(value, origin or hint)


def _to_array(tree: dict[str, Any], buffer: memoryview) -> AnyArray:
    dtype, shape, at = tree["array"], tree["shape"], tree["at"]
    if dtype not in DTYPES:
        raise CodecError(f"arrays of dtype {dtype!r} are not accepted")
    listed = isinstance(shape, list) and len(shape) <= DIMENSIONS
    if not listed or any(type(n) is not int or n < 0 for n in (at, *shape)):
        raise CodecError(f"impossible array: shape {shape} at {at}")
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if at + size > len(buffer):
        raise CodecError("an array points outside the message")
    array = np.frombuffer(buffer[at : at + size], dtype=dtype).reshape(shape)
    return array.copy()
