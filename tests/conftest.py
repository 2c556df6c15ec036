# SPDX-License-Identifier: Apache-2.0
"""The seeds every random test is run with, and how hypothesis searches.

One seed by default; ``AFCL_TEST_SEEDS=0-9`` sweeps ten of them (``3`` is one, ``1,5-7``
are four), so that no test passes by the luck of a seed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "afcl", deadline=None, max_examples=50, derandomize="CI" in os.environ
)
settings.load_profile("afcl")


def _seeds(text: str) -> list[int]:
    """Read ``0-9``, ``3`` or ``1,5-7``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


@pytest.fixture(scope="session", params=_seeds(os.environ.get("AFCL_TEST_SEEDS", "0")))
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of a random test; see the module's docstring."""
    value: int = request.param
    return value


@pytest.fixture(scope="session", autouse=True)
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of the homes of all sites that tests start."""
    folder = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFCL_HOME", str(folder / "shared"))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def quick_disk() -> Iterator[None]:
    """Let files last when they like: only power that fails could tell.

    A test of when files are made to last puts a function of its own there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda number: None)
        yield


@pytest.fixture(autouse=True)
def home(
    homes: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Give every test a home of its own, where sites keep what they have said."""
    folder = homes / hashlib.sha256(request.node.nodeid.encode()).hexdigest()
    monkeypatch.setenv("AFCL_HOME", str(folder))
    return folder
