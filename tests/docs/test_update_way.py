# SPDX-License-Identifier: Apache-2.0
"""One update's way, as CONTRIBUTING lists it: followed in a run, hop by hop."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import afcl
from afcl import AFCL

ROOT = Path(__file__).parents[2]
PACKAGE = str(Path(afcl.__file__).parent) + "/"
#: Where an update is on its way: who is under way then is a hop.
STATIONS = (
    "cohorts.broadcast",
    "codec.encode",
    "InProcess.send",
    "codec.decode",
    "reference_nests.sums_around",
    "InProcess.poll",
    "Flights.of",
    "flights.stamped",
    "cohort_sums.keep_parts",
    "Trace.add",
    "cohorts.end_round",
    "rebuild.prepare",
)
#: What encodes the terms for a digest, and no message.
ASIDE = "site.digest_of"
#: More hops than these are too many to be remembered.
MOST = 44


class Way:
    """The functions that are under way at a station, in the order of their calls."""

    def __init__(self) -> None:
        self.hops: list[str] = []
        self._stack: list[str] = []
        self._rounds = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        if event != "call":
            return
        name = f"{Path(code.co_filename).stem}.{code.co_qualname}"
        self._stack.append(name)
        self._rounds |= name == "coordinator.Coordinator._rounds"
        if self._rounds and name.endswith(STATIONS) and ASIDE not in self._stack:
            self.hops += [hop for hop in self._stack if hop not in self.hops]


def followed() -> list[str]:
    """Follow the updates of a small federation of the default level."""
    rng = np.random.default_rng(0)
    sites = [
        np.concatenate([rng.normal(middle, 0.3, (30, 2)) for middle in (0, 5, 10)])
        for _ in range(4)
    ]
    model, way, before = AFCL(random_state=0), Way(), sys.getprofile()
    sys.setprofile(way)
    try:
        model.fit_clients(sites)
    finally:
        sys.setprofile(before)
    return way.hops


def listed() -> list[str]:
    """Return the hops that CONTRIBUTING lists, without their numbers."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"hop by hop.*?```\n(.*?)```", page, re.DOTALL)
    return re.findall(r"\d+ (\S+)", block)


def test_the_listed_hops_are_those_of_a_run(monkeypatch):
    # Which kernel takes a small table depends on what this process has loaded.
    monkeypatch.setenv("AFCL_KERNELS", "reference")
    hops = listed()
    assert len(hops) == len(set(hops)) <= MOST
    assert hops == followed()
