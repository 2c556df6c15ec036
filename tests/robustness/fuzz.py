# SPDX-License-Identifier: Apache-2.0
"""A fuzzer of the wire: real messages, damaged in every way, thrown at a live server.

``python -m tests.robustness.fuzz --count 100000`` (``make fuzz``) throws that many
malformed messages at a server in the middle of a run, and as many damaged requests as
``--requests`` says at a site. A message must be refused, and the server's state must be
the same to the byte afterwards; one that is still sound after the damage is absorbed
and must not harm the server's next step either. Anything that goes wrong is written to
the folder given by ``--keep``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afcl.core.protocol import Message
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.exceptions import AfclError, RejectedMessage
from afcl.methods import get_method
from afcl.runtime.codec import FORMAT, decode, encode
from afcl.runtime.flights import Flight, stamped
from afcl.runtime.site import Site
from afcl.scale import Box

HEAD = struct.Struct("<4sBI")
CORPUS = Path(__file__).parent / "corpus"

# ------------------------------------------------------------------ a live run


@dataclass(frozen=True)
class Live:
    """A server in the middle of a run, a site, and what they sent each other."""

    state: Any
    site: Site
    answers: dict[str, bytes]
    requests: dict[str, bytes]

    def digest(self) -> str:
        """Return what the state is, to the byte."""
        return hashlib.sha256(pickle.dumps(self.state)).hexdigest()


def begin(seed: int = 0, privacy: str = "summary") -> Live:
    """Run three clients as far as their second answers."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.1, 0.2], [0.9, 0.3], [0.4, 0.8]])
    tables = [rng.normal(spots[[g, g - 1]], 0.03, (20, 2, 2)) for g in range(3)]
    rows = [np.clip(table.reshape(-1, 2), 0, 1) for table in tables]
    method = get_method("afcl")
    options = json.dumps({"privacy": privacy})
    box = Box(np.zeros(2), np.ones(2))
    sites = [Site(table) for table in rows]
    state = method.init((), method.parameters(privacy=privacy), seed)
    state = method.agreed(state, 2, True)
    answers: dict[str, bytes] = {}
    requests: dict[str, bytes] = {"ranges": encode(AskRanges("run", True))}
    answers["ranges"] = sites[0].answer(requests["ranges"])
    for client, site in enumerate(sites):
        terms = Terms("run", "afcl", options, seed, client, box, 120)
        requests["hello"] = encode(AskHello(terms))
        answers[f"hello-{client}"] = said = site.answer(requests["hello"])
        extremes = site.rows.min(axis=0), site.rows.max(axis=0)
        state = method.announced(state, client, *extremes)
        state, _ = method.absorb(state, stamped(decode(said), Flight(client, 0, 0)))
    for contact in (1, 2):
        state = method.prepare(state)
        sent = method.broadcast(state)
        for client, site in enumerate(sites):
            terms = Terms("run", "afcl", options, seed, client, box, 120)
            step = encode(AskStep(terms, sent.version, contact, sent.payload))
            requests[f"step-{contact}"] = step
            answers[f"update-{client}-{contact}"] = said = site.answer(step)
            if client < contact:  # the others are still on their way
                update = stamped(decode(said), Flight(client, contact, sent.version))
                state, _ = method.absorb(state, update)
    return Live(state, sites[0], answers, requests)


# ------------------------------------------------------------------ damage

Damage = Callable[[bytes, np.random.Generator, Sequence[bytes]], bytes]

#: What may stand where something else is expected.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 2**31, 2**53, 2**63 - 1, -(2**63)),
    *(2**63, 10**30, 10**400, 0.0, -0.0, 0.5, 1e308, -1e308, 5e-324),
    *("", "x", "AFCL", "\ud800", "\x00", "é" * 9, "Cells", "Update", "<f8", "|O"),
    *("\x1b[2J\x1b]0;x\x07", "two\nlines", "=cmd", "x" * 400, "\u202e"),
    *([], [[]], [0], {}, {"type": "Cells"}, {"array": "<f8"}),
    *({"type": "Nothing", "fields": {}}, {"array": "<f8", "shape": [0], "at": 0}),
)
#: What may stand in an array.
NUMBERS = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 0.5, 1.0, 2.0, 3.0, 1e6, -1e6),
    *(1e-300, 1e120, 1e155, 1e200, 1e308, -1e308, 5e-324),
)
WHOLE = (0, 1, -1, 2, 4, 5, 40, 41, 10**6, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63))


def parts(data: bytes) -> tuple[Any, bytes]:
    """Take a message apart: the tree and the arrays' bytes."""
    _, _, length = HEAD.unpack_from(data)
    return json.loads(data[HEAD.size : HEAD.size + length]), data[HEAD.size + length :]


def framed(tree: Any, arrays: bytes) -> bytes:
    """Put a message together from a tree."""
    header = json.dumps(tree, separators=(",", ":")).encode()
    return HEAD.pack(b"AFCL", FORMAT, len(header)) + header + arrays


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a tree."""
    found: list[tuple[Any, Any]] = []
    keys = tree if isinstance(tree, dict) else range(len(tree))
    for key in list(keys):
        found.append((tree, key))
        if isinstance(tree[key], dict | list):
            found += places(tree[key])
    return found


def flip_bits(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Flip a few bits anywhere."""
    damaged = bytearray(data)
    for _bit in range(int(rng.integers(1, 5))):
        damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def cut(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Cut it short, or leave a piece out."""
    first, second = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    return data[:first] if rng.random() < 0.5 else data[:first] + data[second:]


def lengthen(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Put something behind it, or in it."""
    at = int(rng.integers(len(data) + 1))
    return data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]


def edit_head(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Claim another magic, format or length of the header."""
    magic, version, length = HEAD.unpack_from(data)
    claims = (0, 1, length - 1, length + 1, 2 * length, len(data), 2**31, 2**32 - 1)
    choice = rng.integers(4)
    if choice == 0:
        magic = rng.bytes(4)
    elif choice == 1:
        version = int(rng.integers(256))
    else:
        length = claims[rng.integers(len(claims))]
    return HEAD.pack(magic, version, length) + data[HEAD.size :]


def splice(data: bytes, rng: np.random.Generator, others: Sequence[bytes]) -> bytes:
    """Begin as one message and end as another; or one's tree with another's arrays."""
    other = others[int(rng.integers(len(others)))]
    if rng.random() < 0.5:
        return framed(parts(data)[0], parts(other)[1])
    first = int(rng.integers(len(data)))
    return data[:first] + other[int(rng.integers(len(other))) :]


def graft(data: bytes, rng: np.random.Generator, others: Sequence[bytes]) -> bytes:
    """Put a branch of another message's tree, or an odd value, into the tree."""
    tree, arrays = parts(data)
    spots = places(tree)
    for _spot in range(int(rng.integers(1, 4))):
        container, key = spots[rng.integers(len(spots))]
        choice = rng.integers(5)
        if choice == 0 and isinstance(container, dict):
            container.pop(key, None)
        elif choice == 1 and isinstance(container, dict):
            container[str(ODD[rng.integers(len(ODD))])[:40]] = container.get(key)
        elif choice == 2:
            there, name = (found := places(parts(others[0])[0]))[
                rng.integers(len(found))
            ]
            container[key] = there[name]
        elif key in container or isinstance(container, list):
            container[key] = ODD[rng.integers(len(ODD))]
    return framed(tree, arrays)


def repeat_key(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Say a name twice, or a number that JSON does not know."""
    tree, arrays = parts(data)
    text = json.dumps(tree, separators=(",", ":"))
    swaps = (
        ('"type":', '"type":"Cells","type":'),
        ('"at":', '"at":0,"at":'),
        ('"array":"<f8"', '"array":NaN'),
        ("[", "[Infinity,"),
        ('"shape":', '"shape":-Infinity,"shap":'),
        ("0", "1e999"),
        ("{", "[" * 2000),
        ("{", '{"fields":' * 60),
    )
    old, new = swaps[rng.integers(len(swaps))]
    header = text.replace(old, new, int(rng.integers(1, 3))).encode()
    return HEAD.pack(b"AFCL", FORMAT, len(header)) + header + arrays


def edit_array(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Put odd numbers into an array, in its place."""
    tree, arrays = parts(data)
    held = [box[key] for box, key in places(tree) if isinstance(box[key], dict)]
    held = [node for node in held if "array" in node and np.prod(node["shape"]) > 0]
    damaged = bytearray(arrays)
    for _array in range(int(rng.integers(1, 4)) if held else 0):
        node = held[rng.integers(len(held))]
        size = int(np.prod(node["shape"]))
        choices = WHOLE if node["array"] == "<i8" else NUMBERS
        spot = slice(None) if rng.random() < 0.2 else int(rng.integers(size))
        values = np.frombuffer(damaged, node["array"], size, node["at"])
        values[spot] = choices[rng.integers(len(choices))]
    return framed(tree, bytes(damaged))


def edit_shape(data: bytes, rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
    """Claim another dtype, shape or place of an array; the bytes stay."""
    tree, arrays = parts(data)
    held = [box[key] for box, key in places(tree) if isinstance(box[key], dict)]
    held = [node for node in held if "array" in node]
    if held:
        node = held[rng.integers(len(held))]
        shapes: tuple[Any, ...] = (
            *(node["shape"][::-1], [*node["shape"], 1], [int(np.prod(node["shape"]))]),
            *([0], [0, 2], [2**31], [-1], [2**40, 2**40], [], [1] * 9, [1.0], ["1"]),
            *([0, 2**32], [2**62, 0]),
        )
        choice = rng.integers(3)
        if choice == 0:
            node["array"] = ("<f8", "<i8", "<f4", "|b1", "|O", "<c16")[rng.integers(6)]
        elif choice == 1:
            node["shape"] = shapes[rng.integers(len(shapes))]
        else:
            node["at"] = int(rng.integers(-8, len(arrays) + 9))
    return framed(tree, arrays)


DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, cut, lengthen, edit_head, splice),
    *(graft, graft, repeat_key, edit_array, edit_array, edit_shape),
)


def damaged(
    data: bytes, rng: np.random.Generator, others: Sequence[bytes]
) -> tuple[str, bytes]:
    """Return a message after one kind of damage, and its name."""
    damage = DAMAGES[rng.integers(len(DAMAGES))]
    return damage.__name__, damage(data, rng, others)


# ------------------------------------------------------------------ throwing


class Harm(Exception):
    """Something that a message must never do; carries the message."""

    def __init__(self, what: str, data: bytes) -> None:
        super().__init__(what)
        self.data = data


def throw(live: Live, data: bytes, contact: int, version: int) -> bool:
    """Throw a message at the server; return whether it was refused."""
    before = live.digest()
    method = get_method("afcl")
    try:
        message: Message = stamped(decode(data), Flight(0, contact, version))
        after, _ = method.absorb(live.state, message)
    except RejectedMessage as error:
        text = str(error)
        if not text.isprintable() or len(text) > 500:
            raise Harm(f"an unfit reason: {text[:80]!r}", data) from error
        refused = True
    except Exception as error:
        raise Harm(f"{type(error).__name__}: {error}", data) from error
    else:
        refused = False
        try:
            method.result(method.prepare(after))
        except Exception as error:
            raise Harm(f"later on {type(error).__name__}: {error}", data) from error
    if live.digest() != before:
        raise Harm("the server's state has changed", data)
    return refused


def ask(live: Live, data: bytes) -> bool:
    """Ask a site something; return whether it refused."""
    site = Site(live.site.rows)
    try:
        site.answer(data)
    except AfclError:
        return True
    except Exception as error:
        raise Harm(f"{type(error).__name__}: {error}", data) from error
    return False


def fuzz(count: int, seed: int, live: Live | None = None) -> Counter[str]:
    """Throw damaged messages until so many were refused; count them by damage."""
    rng = np.random.default_rng(seed)
    live = begin() if live is None else live
    pool = list(live.answers.values())
    told: Counter[str] = Counter()
    while told["refused"] < count:
        name, data = damaged(pool[rng.integers(len(pool))], rng, pool)
        contact = int(rng.integers(3))
        version = int(rng.integers(live.state.version + 1))
        refused = throw(live, data, contact, version)
        told.update([name, "refused" if refused else "absorbed"])
    return told


def fuzz_requests(count: int, seed: int, live: Live | None = None) -> Counter[str]:
    """Ask a site so many damaged requests."""
    rng = np.random.default_rng(seed)
    live = begin() if live is None else live
    pool = list(live.requests.values())
    told: Counter[str] = Counter()
    for _ in range(count):
        name, data = damaged(pool[rng.integers(len(pool))], rng, pool)
        told.update([name, "refused" if ask(live, data) else "answered"])
    return told


def write_corpus(folder: Path) -> None:
    """Write the real messages that the corpus begins with."""
    live = begin()
    for name, data in live.answers.items():
        (folder / f"answer-{name}.bin").write_bytes(data)
    for name, data in live.requests.items():
        (folder / f"request-{name}.bin").write_bytes(data)


def main() -> int:
    """Fuzz, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=CORPUS)
    chosen = parser.parse_args()
    warnings.simplefilter("error")
    try:
        messages = fuzz(chosen.count, chosen.seed)
        requests = fuzz_requests(chosen.requests, chosen.seed)
    except Harm as harm:
        name = hashlib.sha256(harm.data).hexdigest()[:12]
        path = chosen.keep / f"found-{name}.bin"
        path.write_bytes(harm.data)
        sys.stdout.write(f"{harm}\nkept as {path}\n")
        return 1
    sys.stdout.write(f"messages {dict(messages)}\nrequests {dict(requests)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
