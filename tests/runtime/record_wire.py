# SPDX-License-Identifier: Apache-2.0
"""Messages of small runs, one of every kind, as bytes that later versions must read.

``python -m tests.runtime.record_wire`` writes ``wire/format-N.json`` for a new format,
and never overwrites one: what was once sent stays as it was sent.
"""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from afcl import AFCL
from afcl.core.messages import PAYLOADS
from afcl.methods import load_payloads
from afcl.runtime.codec import FORMAT, encode
from afcl.runtime.site import Site

WIRE = Path(__file__).parent / "wire"
#: What the runs differ in; together they say everything that a simulation can.
RUNS = (
    {"privacy": "summary"},
    {"privacy": "secure+summary"},
    {"privacy": "grouped(5)"},
    {"privacy": "dp(8)", "seeded_noise": True},
    {"preset": "paper", "privacy": "affine", "max_rounds": 2},
    {"preset": "matlab", "max_rounds": 2},
    {"privacy": "secure(he)+grouped(5)"},
)
SHAPE = re.compile(rb'"type":"(\w+)"')


@contextmanager
def listening(heard: list[bytes]) -> Iterator[None]:
    """Keep what sites are asked and answer."""
    answer = Site.answer

    def listened(site: Site, request: bytes) -> bytes:
        reply = answer(site, request)
        heard.extend((request, reply))
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "answer", listened)
        yield


def kinds(message: bytes) -> frozenset[str]:
    """Return what a message holds."""
    return frozenset(name.decode() for name in SHAPE.findall(message))


def recorded() -> dict[str, bytes]:
    """Return messages such that every kind is in one of them, the first of its kind."""
    rng = np.random.default_rng(0)
    spots = np.array([[0.1, 0.1], [0.9, 0.9]])
    tables = [
        np.vstack([rng.normal(spot, 0.05, (6, 2)) for spot in spots]) for _ in range(3)
    ]
    kept: dict[str, bytes] = {}
    seen: set[str] = set()
    for options in RUNS:
        heard: list[bytes] = []
        with listening(heard), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AFCL(scale=(np.zeros(2), np.ones(2)), random_state=0, **options)
            model.fit_clients(tables)
        for message in heard:
            new = kinds(message) - seen
            if new:
                seen |= new
                kept[" ".join(sorted(new))] = message
    for name in sorted(own_kinds() - seen):
        kept[name] = encode(filled(PAYLOADS[name]))
    return kept


def own_kinds() -> frozenset[str]:
    """Return all kinds of messages but those of rivals."""
    load_payloads()
    import_module("afcl.runtime.live.announcement")
    import_module("afcl.privacy.he")
    return frozenset(
        name for name, kind in PAYLOADS.items() if kind.__module__.startswith("afcl.")
    )


def filled(kind: Any) -> Any:
    """Return a payload that only live runs send, with something in every field."""
    hints = get_type_hints(kind)
    return kind(**{f.name: _value(hints[f.name]) for f in fields(kind)})


def _value(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is np.ndarray:
        return np.arange(4, dtype=get_args(arguments[1])[0]).reshape(2, 2)
    if origin in (Union, UnionType):
        return _value(next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return (_value(arguments[0]),)
    plain = {int: 7, bool: True, float: 0.5, str: "text", Any: "anything"}
    return plain[hint] if hint in plain else filled(hint)


def main() -> None:
    """Write the file of today's format."""
    path = WIRE / f"format-{FORMAT}.json"
    if path.exists():
        raise SystemExit(f"{path} is there: raise FORMAT in codec.py first")
    texts = {name: base64.b64encode(m).decode() for name, m in recorded().items()}
    path.write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
