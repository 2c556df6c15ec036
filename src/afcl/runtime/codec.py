# SPDX-License-Identifier: Apache-2.0
"""One codec for everything that crosses a wire or lands in a checkpoint.

Layout: the four bytes ``AFCL``, one byte of format version, the header's length
(u32, little endian), the header (JSON in ASCII: the message as a tree, arrays as
references) and the arrays' bytes one after the other, in the order in which the header
names them: no two overlap, nothing lies between or behind them. Only registered
payloads, tuples, plain scalars (finite, whole numbers of 64 bits) and arrays of four
dtypes exist, and every field is of the type its payload declares; nothing is ever
unpickled or executed.

Sizes are checked before anything is parsed, and so is how many values there can be: no
header can make the receiver hold more than some 300 MB, and arrays take no more than
their own bytes again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from afcl._typing import AnyArray
from afcl.core.messages import PAYLOADS, payload_name
from afcl.exceptions import CodecError
from afcl.methods import load_payloads

#: How every message begins.
MAGIC = b"AFCL"
#: Version of the layout above, and of what messages consist of.
FORMAT = 5
#: Types of arrays that travel.
DTYPES = ("<f8", "<i8", "<f4", "|b1")
#: Bytes of a number of each type.
SIZES = {dtype: np.dtype(dtype).itemsize for dtype in DTYPES}
#: Dimensions an array may have.
DIMENSIONS = 2
#: Bytes of a message; a larger one is refused before it is parsed.
LIMIT = 1 << 30
#: Bytes of a header; the same.
HEADER_LIMIT = 1 << 25
#: Levels of a header's tree; a deeper one is refused while it is read.
DEPTH_LIMIT = 32
#: Arrays of a message; the same.
ARRAY_LIMIT = 1 << 16
#: Values of a header, or of other JSON in it; more are refused before it is parsed, as
#: some take thirty times their bytes when it is. Enough for 100,000 columns.
VALUE_LIMIT = 1 << 21
#: Values that hold others; the same. Enough for all the arrays there may be.
BRANCH_LIMIT = 1 << 18
#: Rows or columns of an array without any number in it; the same.
EMPTY_LIMIT = 1 << 31
#: Bits of a whole number; the same.
BITS = 64
#: Of a message that is refused no more than this is repeated.
SHOWN = 80
_HEAD = struct.Struct("<4sBI")


def encode(message: Any) -> bytes:
    """Return the bytes of a registered payload."""
    buffers: list[bytes] = []
    tree = _to_tree(message, buffers, [0])
    header = json.dumps(tree, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(MAGIC, FORMAT, len(header)), header, *buffers))


def _to_tree(value: Any, buffers: list[bytes], offset: list[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not is_text(value):
            raise CodecError("text that no file can hold does not travel")
        return value
    if isinstance(value, int | float):
        if not _travels(value):
            raise CodecError(f"the number {value} does not travel")
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
    kind: Any = type(value)
    name, layout = _layout(kind)
    if PAYLOADS.get(name) is not kind:
        raise CodecError(f"a {kind.__name__} does not travel")
    fields = {}
    for field, optional in layout:
        part = getattr(value, field)
        if part is not None or not optional:
            fields[field] = _to_tree(part, buffers, offset)
    return {"type": name, "fields": fields}


@cache
def _layout(kind: type[Any]) -> tuple[str, tuple[tuple[str, bool], ...]]:
    """Return a payload's name and fields, with which of them are left out if None."""
    if not dataclasses.is_dataclass(kind):
        return payload_name(kind), ()
    fields = dataclasses.fields(kind)
    return payload_name(kind), tuple((f.name, f.default is None) for f in fields)


def _travels(number: float) -> bool:
    """Whether a number is finite, and of no more than 64 bits if it is whole."""
    if isinstance(number, int):
        return -(1 << (BITS - 1)) <= number < 1 << (BITS - 1)
    return math.isfinite(number)


def is_text(text: str) -> bool:
    """Whether a text can be written to a file: it holds no half of a character."""
    if text.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in text)


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
    if length > HEADER_LIMIT:
        raise CodecError(f"header of {length} bytes exceeds {HEADER_LIMIT}")
    start = _HEAD.size + length
    if start > len(data):
        raise CodecError("message is cut short")
    held = memoryview(data)
    try:
        tree = _JSON.decode(bounded(str(held[_HEAD.size : start], "ascii")))
        reader = _Reader(held[start:])
        message = reader.read(tree, 0)
        reader.close()
    except CodecError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CodecError(f"malformed message: {_shown(str(error))}") from error
    return message


def bounded(text: str) -> str:
    """Return JSON that is not parsed yet, or refuse what may hold too many values.

    Counted is what stands before a value, inside of texts too: never too few.
    """
    branches = text.count("[") + text.count("{")
    if branches > BRANCH_LIMIT or branches + text.count(",") > VALUE_LIMIT:
        raise CodecError("malformed message: more values than any message needs")
    return text


def _shown(text: str) -> str:
    """Return the beginning of what a stranger wrote, in characters fit for a file."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else " " for c in plain[:SHOWN])


def _no_constant(name: str) -> Any:
    raise CodecError(f"malformed message: the number {name} does not travel")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CodecError("malformed message: a name comes twice")
    return members


_JSON = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_no_constant,
)


class _Reader:
    """Turns a header's tree into a message; arrays are taken in order from `buffer`."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._at = 0
        self._arrays = 0

    def close(self) -> None:
        """Refuse bytes that nobody named."""
        left = len(self._buffer) - self._at
        if left:
            raise CodecError(f"{left} bytes belong to no array")

    def read(self, tree: Any, depth: int) -> Any:
        """Return what a part of the tree stands for."""
        if depth > DEPTH_LIMIT:
            raise CodecError(f"malformed message: more than {DEPTH_LIMIT} levels deep")
        if isinstance(tree, list):
            return tuple(self.read(item, depth + 1) for item in tree)
        if isinstance(tree, str) and not is_text(tree):
            raise CodecError("malformed message: text that no file can hold")
        if not isinstance(tree, dict):
            if isinstance(tree, int | float) and not _travels(tree):
                raise CodecError(
                    f"malformed message: a number is not finite, or has more than "
                    f"{BITS} bits"
                )
            return tree
        if "array" in tree:
            return self._array(tree)
        return self._payload(tree, depth)

    def _payload(self, tree: dict[str, Any], depth: int) -> Any:
        name, members = tree["type"], tree["fields"]
        if name not in PAYLOADS:
            load_payloads()
        kind: Any = PAYLOADS.get(name)
        if kind is None:
            raise CodecError(f"unknown message type {_shown(repr(name))}")
        if not isinstance(members, dict) or len(tree) > 2:
            raise CodecError(f"a {name} without fields, or with more than these")
        checkers = _checkers(kind)
        for field in members:
            if field not in checkers:
                raise CodecError(
                    f"malformed message: a {name} has no {_shown(repr(field))}"
                )
        fields = {field: self.read(item, depth + 1) for field, item in members.items()}
        for field, value in fields.items():
            if not checkers[field](value):
                raise CodecError(
                    f"{field} of a {name} cannot be a {type(value).__name__}"
                )
        return kind(**fields)

    def _array(self, tree: dict[str, Any]) -> AnyArray:
        dtype, shape, at = tree["array"], tree["shape"], tree["at"]
        self._arrays += 1
        if self._arrays > ARRAY_LIMIT:
            raise CodecError(f"more than {ARRAY_LIMIT} arrays")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise CodecError(f"arrays of dtype {_shown(repr(dtype))} are not accepted")
        listed = isinstance(shape, list) and len(shape) <= DIMENSIONS
        if not listed or any(type(n) is not int or n < 0 for n in (at, *shape)):
            raise CodecError(f"impossible array: shape {_shown(repr(shape))}")
        size = math.prod(shape) * SIZES[dtype]
        if not size and max(shape) > EMPTY_LIMIT:
            raise CodecError("malformed message: an empty array is not so long")
        if at + size > len(self._buffer):
            raise CodecError("an array points outside the message")
        if at != self._at or len(tree) > 3:
            raise CodecError(f"an array at {at} is not where it belongs")
        self._at += size
        part = self._buffer[at : at + size]
        return np.frombuffer(part, dtype=dtype).reshape(shape).copy()


#: Whether a decoded value is of the type that was declared.
Fits = Callable[[Any], bool]


@cache
def _checkers(kind: type[Any]) -> dict[str, Fits]:
    """Return how each field of a payload is checked."""
    hints = get_type_hints(kind)
    return {field: _checker(hint) for field, hint in hints.items()}


def _checker(hint: Any) -> Fits:
    """Return what checks values against a declared type."""
    if hint is Any:
        return lambda value: True
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # a named alias, as NumPy's arrays from 2.5 on
        return _checker(origin.__value__)
    if origin in (Union, UnionType):
        choices = [_checker(argument) for argument in arguments]
        return lambda value: any(fits(value) for fits in choices)
    if origin is tuple and arguments[-1] is Ellipsis:
        each = _checker(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if hint is float:
        return lambda value: type(value) in (float, int)
    if hint in (int, bool):
        return lambda value: type(value) is hint
    kind = origin or hint
    return lambda value: isinstance(value, kind)
