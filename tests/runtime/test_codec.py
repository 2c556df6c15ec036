# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import functools
import json
import math
import struct
from types import GenericAlias, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import afcl.core.terms  # noqa: F401  (registers the requests)
from afcl.core import messages as core
from afcl.core.messages import (
    PAYLOADS,
    Cells,
    Hello,
    Left,
    Level,
    Plan,
    Update,
    payload,
    payload_name,
)
from afcl.exceptions import CodecError, RejectedMessage
from afcl.methods import load_payloads
from afcl.runtime import codec
from afcl.runtime.codec import (
    DEPTH_LIMIT,
    DTYPES,
    FORMAT,
    HEADER_LIMIT,
    LIMIT,
    MAGIC,
    decode,
    encode,
)

HEAD = struct.Struct("<4sBI")

load_payloads()


def same(a: Any, b: Any) -> bool:
    """Equal to the bit: types, dtypes, shapes, NaN and the sign of zero."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        equal = a.dtype == b.dtype and a.shape == b.shape
        return bool(equal and a.tobytes() == b.tobytes())
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (a != a and b != b)
    if dataclasses.is_dataclass(a):
        fields = [field.name for field in dataclasses.fields(a)]
        return all(same(getattr(a, name), getattr(b, name)) for name in fields)
    return bool(a == b)


def frame(tree: Any, arrays: bytes = b"", version: int = FORMAT) -> bytes:
    """Bytes with a header written by hand."""
    header = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return HEAD.pack(MAGIC, version, len(header)) + header + arrays


def ranges(low: Any) -> dict[str, Any]:
    """Tree of a message whose field `low` is the given one."""
    high = {"array": "<f8", "shape": [0], "at": 0}
    fields = {"n_rows": 1, "n_features": 1, "low": low, "high": high}
    return {"type": "Ranges", "fields": fields}


def hello() -> Hello:
    cells = Cells(np.array([5, 7]), np.array([[0.0, 1.0], [2.0, 3.0]]), np.ones(2))
    return Hello(12, cells)


# ------------------------------------------------------------------ strategies

whole = st.integers(-(2**63), 2**63 - 1)
real = st.floats(allow_nan=False, allow_infinity=False)
scalars = (
    st.none()
    | st.booleans()
    | whole
    | real
    | st.text(st.characters(codec="utf-8"), max_size=8)
)
shapes = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 4)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
arrays = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, shapes))
anything: st.SearchStrategy[Any] = st.recursive(
    scalars | arrays | st.deferred(lambda: payloads),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    """Values of the type that a payload declares for a field."""
    if hint is Any:
        return anything
    if get_origin(hint) is np.ndarray:
        return arrays
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([of_hint(one) for one in get_args(hint)])
    if get_origin(hint) is tuple:
        return st.lists(of_hint(get_args(hint)[0]), max_size=3).map(tuple)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: whole,
        bool: st.booleans(),
        float: real,
        str: st.text(max_size=8),
        type(None): st.none(),
    }
    return plain[hint] if hint in plain else of_kind(hint)


#: Texts for people are nothing but that.
printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8)


def of_kind(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a registered payload."""
    hints = get_type_hints(kind)
    fields = {
        field.name: of_hint(hints[field.name]) for field in dataclasses.fields(kind)
    }
    for shown in {"run", "reason"} & fields.keys():
        fields[shown] = printable
    return st.builds(kind, **fields)


payloads: st.SearchStrategy[Any] = st.sampled_from(sorted(PAYLOADS)).flatmap(
    lambda name: of_kind(PAYLOADS[name])
)
quick = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# ------------------------------------------------------------------ round trips


def test_requests_and_messages_are_registered():
    assert {"Hello", "Update", "Cells", "Plan", "Terms", "AskStep"} <= set(PAYLOADS)
    assert all(dataclasses.is_dataclass(kind) for kind in PAYLOADS.values())


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_every_payload_comes_back_as_it_was(name):
    @quick
    @given(of_kind(PAYLOADS[name]))
    def round_trip(message):
        data = encode(message)
        assert same(decode(data), message)
        assert encode(decode(data)) == data

    round_trip()


@quick
@given(anything)
def test_whatever_may_travel_comes_back_as_it_was(content):
    assert same(decode(encode(Update(content))), Update(content))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 2), (2, 0), (2, 3)])
def test_arrays_of_every_dtype_and_shape(dtype, shape):
    array = np.ones(shape, dtype)

    back = decode(encode(Update(array))).payload

    assert same(back, array)
    assert back.flags.writeable
    assert back.flags.owndata


@pytest.mark.parametrize(
    "value",
    [-0.0, 5e-324, 1.7976931348623157e308, 0.1, 2**63 - 1, -(2**63)],
)
def test_numbers_keep_every_bit(value):
    assert same(decode(encode(Update(value))).payload, value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2**63, -(2**63) - 1])
def test_numbers_that_do_not_travel(value):
    with pytest.raises(CodecError, match="does not travel"):
        encode(Update(value))


def test_half_a_character_does_not_travel():
    with pytest.raises(CodecError, match="no file can hold"):
        encode(Update("a\ud800"))
    half = b'{"type":"Update","fields":{"payload":"\\udfff"}}'
    refused(frame(half), "no file can hold")
    whole = b'{"type":"Update","fields":{"payload":"\\ud83d\\ude00"}}'
    assert decode(frame(whole)).payload == "\U0001f600"


def test_arrays_keep_nan_and_infinity():
    array = np.array([np.nan, np.inf, -np.inf, -0.0])

    assert same(decode(encode(Update(array))).payload, array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(12.0)[::2],
        np.arange(12.0).reshape(3, 4)[:, 1:3],
        np.arange(4.0).astype(">f8"),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ],
)
def test_strides_and_byte_order_do_not_matter(array):
    back = decode(encode(Update(array))).payload

    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("<")
    assert back.flags.c_contiguous


def test_a_numpy_float_travels_as_a_float():
    assert same(decode(encode(Update(np.float64(0.5)))).payload, 0.5)


def test_arrays_share_nothing_with_the_bytes():
    data = encode(hello())
    first, second = decode(data), decode(data)

    first.payload.counts[0] = 99

    assert second.payload.counts[0] == 5
    assert decode(data).payload.counts[0] == 5


def test_the_layout_is_the_documented_one():
    data = encode(Update(np.array([1.5])))
    magic, version, length = HEAD.unpack_from(data)

    assert (magic, version) == (b"AFCL", 5)
    assert json.loads(data[HEAD.size : HEAD.size + length])["type"] == "Update"
    assert data[HEAD.size + length :] == struct.pack("<d", 1.5)


# ------------------------------------------------------------------ does not travel


@dataclasses.dataclass(frozen=True)
class Stranger:
    x: int = 0


class Hat(Left):
    """Subclass of a message that is not sent."""


@pytest.mark.parametrize(
    "thing",
    [
        Stranger(),
        Left(0),
        Hat(0),
        object(),
        [1, 2],
        {"a": 1},
        {1},
        b"bytes",
        1j,
        np.int64(1),
        np.bool_(True),
        len,
        Hello,
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_other_things_do_not_travel(thing):
    with pytest.raises(CodecError, match="does not travel"):
        encode(thing)
    with pytest.raises(CodecError, match="does not travel"):
        encode(Update((1, thing)))


def test_a_namesake_of_a_payload_does_not_travel():
    namesake = dataclasses.make_dataclass("Cells", ["counts"])

    with pytest.raises(CodecError, match="a Cells does not travel"):
        encode(namesake(1))


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.zeros(1, np.int32),
        np.zeros(1, np.uint8),
        np.zeros(1, np.float16),
        np.zeros(1, "datetime64[s]"),
        np.zeros(1, [("a", float)]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_other_dtypes_do_not_travel(array):
    with pytest.raises(CodecError, match="arrays of dtype .* do not travel"):
        encode(Update(array))


def test_arrays_of_three_dimensions_do_not_travel():
    with pytest.raises(CodecError, match="arrays of 3 dimensions do not travel"):
        encode(Update(np.zeros((1, 1, 1))))


# ------------------------------------------------------------------ refusals


def refused(data: bytes, why: str) -> None:
    with pytest.raises(CodecError, match=why):
        decode(data)


def test_a_refusal_is_a_rejected_message():
    assert issubclass(CodecError, RejectedMessage)


def test_too_large_is_refused_before_anything_is_parsed():
    data = encode(hello())

    assert same(decode(data, limit=len(data)), hello())
    with pytest.raises(CodecError, match=f"message of {len(data)} bytes exceeds"):
        decode(data, limit=len(data) - 1)
    with pytest.raises(CodecError, match="exceeds the limit"):
        decode(b"rubbish", limit=3)
    assert LIMIT == 1 << 30


@pytest.mark.parametrize("message", [hello(), Update(None), Update((1.5, "text"))])
def test_every_prefix_is_refused(message):
    data = encode(message)
    for end in range(len(data)):
        with pytest.raises(CodecError):
            decode(data[:end])


def test_wrong_magic():
    refused(b"LCFA" + encode(hello())[4:], "not an afcl message")


@pytest.mark.parametrize("version", [0, FORMAT + 1, 255])
def test_wrong_version(version):
    refused(frame(None, version=version), f"format {version} is not format {FORMAT}")


@pytest.mark.parametrize("name", ["Stranger", "Left", "", "os.system", "hello"])
def test_unknown_type(name):
    refused(frame({"type": name, "fields": {}}), "unknown message type")


def test_a_method_is_imported_when_its_payload_arrives(monkeypatch):
    data = encode(hello())
    cells = PAYLOADS["Cells"]
    monkeypatch.delitem(PAYLOADS, "Cells")
    register = functools.partial(PAYLOADS.__setitem__, "Cells", cells)
    monkeypatch.setattr("afcl.runtime.codec.load_payloads", register)

    assert same(decode(data), hello())


@pytest.mark.parametrize("name", [None, 3, [], ["Hello"], {"a": 1}, True])
def test_a_type_that_is_no_name(name):
    refused(frame({"type": name, "fields": {}}), "unknown message type|malformed")


@pytest.mark.parametrize("fields", [None, 3, [], ["payload"], "payload"])
def test_fields_that_are_no_mapping(fields):
    refused(frame({"type": "Update", "fields": fields}), "without fields")


@pytest.mark.parametrize("tree", [{}, {"fields": {}}, {"type": "Update"}, {"at": 0}])
def test_a_message_without_its_parts(tree):
    refused(frame(tree), "malformed message")


def test_a_missing_field():
    refused(frame({"type": "Hello", "fields": {"n_rows": 1}}), "malformed .* 'payload'")


def test_an_extra_field():
    fields = {"payload": None, "admin": True}
    refused(frame({"type": "Update", "fields": fields}), "malformed .* 'admin'")


@pytest.mark.parametrize(
    "dtype", ["|O", "O", "<i4", ">f8", "<c16", "|V8", "", None, 8, []]
)
def test_a_dtype_that_is_not_allowed(dtype):
    low = {"array": dtype, "shape": [1], "at": 0}
    refused(frame(ranges(low), bytes(64)), "arrays of dtype .* are not accepted")


@pytest.mark.parametrize(
    "shape",
    [
        [-1],
        [1, -1],
        [1.0],
        [True],
        ["1"],
        [None],
        [[1]],
        [1, 1, 1],
        [0, 0, 0],
        "1",
        "",
        {"1": 1},
        {},
        None,
        3,
    ],
)
def test_impossible_shapes(shape):
    low = {"array": "<f8", "shape": shape, "at": 0}
    refused(frame(ranges(low), bytes(64)), "impossible array")


@pytest.mark.parametrize("shape", [[9], [2**31], [2**62, 2**62], [3, 3]])
def test_huge_shapes(shape):
    low = {"array": "<f8", "shape": shape, "at": 0}
    refused(frame(ranges(low), bytes(64)), "points outside the message")


def test_a_huge_and_empty_shape():
    low = {"array": "<f8", "shape": [0, 2**63 - 1], "at": 0}
    refused(frame(ranges(low)), "malformed")


@pytest.mark.parametrize("at", [57, 64, 65, 2**63 - 1])
def test_offsets_outside(at):
    low = {"array": "<f8", "shape": [1], "at": at}
    refused(frame(ranges(low), bytes(64)), "points outside the message")


@pytest.mark.parametrize("at", [-1, -64, 0.0, "0", None, True, [0]])
def test_impossible_offsets(at):
    low = {"array": "<f8", "shape": [1], "at": at}
    refused(frame(ranges(low), bytes(64)), "impossible array")


@pytest.mark.parametrize("lacking", ["shape", "at"])
def test_arrays_without_their_parts(lacking):
    low: dict[str, Any] = {"array": "<f8", "shape": [1], "at": 0}
    del low[lacking]
    refused(frame(ranges(low), bytes(64)), "malformed message")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Hello", "n_rows", "12"),
        ("Hello", "n_rows", 12.0),
        ("Hello", "n_rows", True),
        ("Hello", "n_rows", None),
        ("Update", "version", {"array": "<f8", "shape": [0], "at": 0}),
        ("Cells", "counts", [1, 2]),
        ("Cells", "means", None),
        ("Cells", "scatters", 0.5),
        ("Plan", "candidates", [1]),
        ("Plan", "candidates", None),
        ("LevelReply", "cells", None),
        ("LevelReply", "sums", 0.5),
        ("LevelReply", "valleys", None),
        ("LevelReply", "revision", True),
        ("Cells", "offsets", 3),
        ("AskRanges", "extremes", 1),
        ("AskRanges", "run", 1),
        ("AskHello", "terms", {"type": "Update", "fields": {"payload": None}}),
    ],
)
def test_a_field_of_another_type(kind, name, value):
    empty = {"array": "<f8", "shape": [0], "at": 0}
    cells = {"counts": empty, "means": empty, "scatters": empty}
    whole: dict[str, dict[str, Any]] = {
        "Hello": {"n_rows": 1, "payload": None},
        "Update": {"payload": None},
        "Cells": cells,
        "Plan": {"seeds": empty, "candidates": []},
        "LevelReply": {
            "cells": {"type": "Cells", "fields": cells},
            "owners": empty,
            "sums": empty,
            "valleys": empty,
            "revision": 0,
        },
        "AskRanges": {"run": "r", "extremes": True},
        "AskHello": {"terms": None},
    }
    if kind != "AskHello":
        decode(frame({"type": kind, "fields": whole[kind]}))
    tree = {"type": kind, "fields": {**whole[kind], name: value}}
    refused(frame(tree), f"{name} of a {kind} cannot be a")


@pytest.mark.parametrize("depth", [5_000, 200_000])
@pytest.mark.parametrize("nest", ["[", '{"type":"Update","fields":{"payload":'])
def test_deep_nesting(depth, nest):
    close = "]" if nest == "[" else "}}"
    header = (nest * depth + "1" + close * depth).encode()

    refused(frame(header), "malformed message")


@pytest.mark.parametrize(
    "header",
    [b"", b"\xff\xfe\xfd", b"{", b"NULL", b'{"type":"Update"', b"1 2", b"\x00" * 8],
)
def test_headers_that_are_no_json(header):
    refused(frame(header), "malformed message")


@pytest.mark.parametrize(
    "number",
    [
        "1" * 5000,
        "-" + "9" * 19,
        str(2**63),
        "1e999999",
        "NaN",
        "Infinity",
        "-Infinity",
    ],
)
def test_numbers_without_end(number):
    header = f'{{"type":"Update","fields":{{"payload":{number}}}}}'.encode()
    refused(frame(header), "malformed message")


# ------------------------------------------------------------------ one form only


def test_arrays_may_not_share_their_bytes():
    # A header of few bytes could otherwise make copy after copy of one large region.
    at = {"array": "<f8", "shape": [8], "at": 0}
    refused(frame(ranges({**at, "at": 8}), bytes(72)), "is not where it belongs")
    tree = {"type": "Update", "fields": {"payload": [at, at]}}
    refused(frame(tree, bytes(64)), "an array at 0 is not where it belongs")
    half = {**at, "at": 32}
    tree = {"type": "Update", "fields": {"payload": [{**at, "shape": [6]}, half]}}
    refused(frame(tree, bytes(96)), "an array at 32 is not where it belongs")


def test_arrays_come_in_order_and_without_gaps():
    first = {"array": "<f8", "shape": [1], "at": 0}
    second = {**first, "at": 8}

    def update(*parts):
        return {"type": "Update", "fields": {"payload": list(parts)}}

    assert len(decode(frame(update(first, second), bytes(16))).payload) == 2
    refused(frame(update(second, first), bytes(16)), "not where it belongs")
    refused(frame(update(second), bytes(16)), "not where it belongs")
    refused(frame(update(first), bytes(16)), "8 bytes belong to no array")
    refused(frame(update(), b"x"), "1 bytes belong to no array")


def test_arrays_say_nothing_else():
    array = {"array": "<f8", "shape": [1], "at": 0, "type": "Update"}
    refused(
        frame({"type": "Update", "fields": {"payload": array}}, bytes(8)), "belongs"
    )


def test_payloads_say_nothing_else():
    tree = {"type": "Update", "fields": {"payload": None}, "more": 1}
    refused(frame(tree), "with more than these")


@pytest.mark.parametrize(
    "header",
    [
        b'{"type":"Update","type":"Hello","fields":{"payload":null}}',
        b'{"type":"Update","fields":{"payload":1,"payload":2}}',
        b'{"type":"Update","fields":{"payload":{"array":"<f8","at":0,"at":0}}}',
    ],
)
def test_a_name_may_not_come_twice(header):
    refused(frame(header), "a name comes twice")


@pytest.mark.parametrize("nest", ["[", '{"type":"Update","fields":{"payload":'])
def test_the_depth_is_limited(nest):
    close = "]" if nest == "[" else "}}"

    def nested(depth):
        inner = nest * depth + "1" + close * depth
        return frame(f'{{"type":"Update","fields":{{"payload":{inner}}}}}'.encode())

    decode(nested(DEPTH_LIMIT - 1))
    refused(nested(DEPTH_LIMIT), f"more than {DEPTH_LIMIT} levels deep")


def test_the_number_of_arrays_is_limited(monkeypatch):
    monkeypatch.setattr(codec, "ARRAY_LIMIT", 3)
    empty = np.zeros(0)
    decode(encode(Update((empty,) * 3)))
    refused(encode(Update((empty,) * 4)), "more than 3 arrays")


def test_the_header_is_limited():
    data = HEAD.pack(MAGIC, FORMAT, HEADER_LIMIT + 1)
    refused(data, f"header of {HEADER_LIMIT + 1} bytes exceeds")


@pytest.mark.parametrize("name", ["x" * 10**6, "\ud800", "a\nb\x1b[2J"])
def test_a_refusal_repeats_little_of_what_was_said(name):
    header = json.dumps({"type": name, "fields": {}}).encode()
    fields = json.dumps({"type": "Update", "fields": {name: 1}}).encode()
    array = json.dumps(ranges({"array": name, "shape": [1], "at": 0})).encode()
    for data in (header, fields, array):
        with pytest.raises(CodecError) as refusal:
            decode(frame(data))
        text = str(refusal.value)
        assert len(text) < 200
        assert text.isprintable()
        assert text.isascii()


def survives(data: bytes) -> bool:
    """Decode or refuse; anything else is an error of the test."""
    try:
        decode(data)
    except CodecError:
        return False
    return True


def test_random_bytes_are_refused():
    rng = np.random.default_rng(0)
    for size in rng.integers(0, 200, 2000):
        assert not survives(rng.bytes(int(size)))


def test_random_headers_are_refused():
    rng = np.random.default_rng(1)
    for size in rng.integers(2, 200, 2000):
        assert not survives(frame(rng.bytes(int(size))))


@pytest.mark.parametrize("seed", range(3))
def test_single_flipped_bytes_decode_or_are_refused(seed):
    rng = np.random.default_rng(seed)
    level = Level(np.ones((2, 2)), np.ones(2), np.ones(2), 3)
    messages = [
        hello(),
        Update(Plan(np.zeros((3, 2)), (level, level))),
        Update((1.5, "é")),
    ]
    whole = 0
    for case in range(1500):
        data = bytearray(encode(messages[case % 3]))
        data[rng.integers(len(data))] ^= rng.integers(1, 256)
        whole += survives(bytes(data))
    assert 0 < whole < 1500


def test_every_bit_of_the_header_flipped():
    data = encode(hello())
    _, _, length = HEAD.unpack_from(data)
    for at in range(HEAD.size + length):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            survives(bytes(damaged))


# ------------------------------------------------------------------ declared types


@pytest.fixture
def maybe():
    """A payload with fields of other types, registered for one test."""

    @payload
    @dataclasses.dataclass(frozen=True)
    class MaybeForOneTest:
        number: int | None
        pair: tuple[int, int] = (1, 2)

    yield MaybeForOneTest
    del PAYLOADS[payload_name(MaybeForOneTest)]


def test_optional_fields(maybe):
    assert decode(encode(maybe(None))) == maybe(None)
    assert decode(encode(maybe(3, (4, 5)))) == maybe(3, (4, 5))
    tree = {"type": payload_name(maybe), "fields": {"number": "3"}}
    refused(frame(tree), "number of a .*MaybeForOneTest cannot be a str")


def test_a_plugin_may_call_its_payloads_what_the_core_calls_its_own():
    @payload
    @dataclasses.dataclass(frozen=True)
    class Cells:
        text: str

    try:
        ours = core.Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1))
        assert same(decode(encode(Update(ours))), Update(ours))
        assert decode(encode(Update(Cells("theirs")))) == Update(Cells("theirs"))
        assert b'"type":"Cells"' in encode(ours)  # as journals of before have it
    finally:
        del PAYLOADS[payload_name(Cells)]


def test_a_named_alias_of_arrays_is_checked_as_what_it_names():
    class Alias:
        __value__ = np.ndarray[Any, Any]

    alias: Any = Alias()
    fits = codec._checker(GenericAlias(alias, (np.float64,)))
    assert fits(np.zeros(2))
    assert not fits([0.0, 0.0])
