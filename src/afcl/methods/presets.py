# SPDX-License-Identifier: Apache-2.0
"""AFCL's presets: from a user's arguments to a method and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from afcl.core.params import DefaultParams
from afcl.core.protocol import AnyMethod
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.privacy import default_level, level_for
from afcl.registry import CONVEX, SHAPE

PRESETS = {"default": "afcl", "paper": "afcl-paper", "matlab": "afcl-matlab"}

#: Options of the default preset; the level is read apart.
_DEFAULT = tuple(f.name for f in fields(DefaultParams) if f.name != "privacy")
#: Those of the other two that users are shown.
_PAPER = ("n_seeds", "learning_rate", "balance")


def resolve(arguments: Mapping[str, Any]) -> tuple[AnyMethod, dict[str, Any], str]:
    """Return the method, the options it takes and the privacy level it runs at.

    Of `arguments` (those of :class:`afcl.AFCL`; what is absent keeps its default) only
    the ones the preset knows are passed on.
    """
    preset = arguments.get("preset", "default")
    if preset not in PRESETS:
        raise InputError(
            f"preset {preset!r} is unknown: choose one of {', '.join(PRESETS)}"
        )
    privacy = arguments.get("privacy")
    level = str(level_for(preset, privacy))
    shape = arguments.get("shape", SHAPE)
    if preset != "default" and shape not in (CONVEX, SHAPE):
        raise InputError(
            f"preset {preset} knows round clusters only: leave out shape={shape!r}, or "
            "use the default preset"
        )
    names = _DEFAULT if preset == "default" else _PAPER
    options = {name: arguments[name] for name in names if name in arguments}
    if privacy is not None:
        options["privacy"] = level
    for name in ("n_seeds", "max_clusters"):
        if name in options:
            options[name] = _auto(name, options[name])
    return get_method(PRESETS[preset]), options, level


def at_default_level(
    method: AnyMethod,
    options: dict[str, Any],
    n_clients: int,
    scale: Any = "minmax",
    live: bool = False,
) -> tuple[dict[str, Any], str]:
    """Return options in which the privacy level stands, and why it is that one.

    A level that was named stays, for no reason ("").
    """
    if method.name != PRESETS["default"] or options.get("privacy") is not None:
        return options, ""
    contacts = options.get("contacts", DefaultParams().contacts)
    level, reason = default_level(n_clients, scale, contacts, live)
    return {**options, "privacy": level}, reason


def _auto(name: str, value: int | str) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, str):
        raise InputError(f"{name} must be 'auto' or a number, not {value!r}")
    return int(value)
