# SPDX-License-Identifier: Apache-2.0
"""The engines by name: what may carry the messages of a live run."""

from __future__ import annotations

from collections.abc import Callable

from afcl.exceptions import InputError
from afcl.registry import resolve
from afcl.runtime.live.engine import Launcher

#: Where an engine's launcher is: module and name, imported when it is asked for.
_REGISTRY: dict[str, str | Callable[[], Launcher]] = {
    "flower": "afcl.runtime.flower.launcher:FlowerLauncher",
}
#: What ``afcl serve`` and ``afcl join`` use unless another one is named.
DEFAULT = "flower"


def engine_names() -> tuple[str, ...]:
    """Return the engines by name."""
    return tuple(sorted(_REGISTRY))


def register_engine(name: str, launcher: Callable[[], Launcher]) -> None:
    """Make an engine known in this process.

    Parameters
    ----------
    name : str
        What ``--engine`` calls it.
    launcher : callable
        Returns its :class:`~afcl.runtime.live.engine.Launcher`.
    """
    if name in _REGISTRY:
        raise InputError(f"an engine {name!r} is there already: choose another name")
    _REGISTRY[name] = launcher


def get_launcher(name: str = DEFAULT) -> Launcher:
    """Return what starts an engine, or say which ones there are."""
    made = _REGISTRY.get(name)
    if made is None:
        raise InputError(f"no engine {name!r}: there is {', '.join(engine_names())}")
    if isinstance(made, str):
        made = resolve(made)
    launcher: Launcher = made()
    return launcher
