# SPDX-License-Identifier: Apache-2.0
"""The registry of methods: AFCL's own, and those that installed packages bring.

A package brings methods through two groups of entry points, read when a name is asked
for that is not AFCL's own; the method's module is imported later still.

- ``afcl.methods``: the method's name -> ``module:Class`` (see :class:`Rival`).
- ``afcl.wrappers``: a prefix -> ``module:function``, which takes the name behind the
  colon of ``prefix:name`` and returns a method.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from afcl._addon import INSTALL
from afcl.core.protocol import AnyMethod
from afcl.exceptions import InputError

if TYPE_CHECKING:
    from afcl.methods.one_shot import OneShot
    from afcl.methods.rival import (
        KnownK,
        Nothing,
        Rival,
        RivalState,
        expect,
        is_table,
        simple_clustering,
    )

__all__ = [
    "KnownK",
    "Nothing",
    "OneShot",
    "Rival",
    "RivalState",
    "expect",
    "get_method",
    "is_table",
    "load_payloads",
    "method_names",
    "register_method",
    "simple_clustering",
]

METHODS = "afcl.methods"
WRAPPERS = "afcl.wrappers"

#: Name -> "module:Class"; a module is imported when its method is asked for.
_REGISTRY = {
    "afcl": "afcl.methods.afcl:Afcl",
    "afcl-matlab": "afcl.methods.afcl_matlab:AfclMatlab",
    "afcl-paper": "afcl.methods.afcl_paper:AfclPaper",
}


def __getattr__(name: str) -> Any:
    """Import the skeletons of methods when one is asked for: they load NumPy."""
    if name not in __all__:
        raise AttributeError(f"module 'afcl.methods' has no attribute {name!r}")
    module = "one_shot" if name == "OneShot" else "rival"
    return getattr(import_module(f"afcl.methods.{module}"), name)


@cache
def _plugins(group: str) -> dict[str, str]:
    """Return what installed packages bring: name -> "module:attribute"."""
    # Slow to import, and of no use to who runs AFCL itself.
    from importlib.metadata import entry_points

    places: dict[str, str] = {}
    for entry in entry_points(group=group):
        if places.setdefault(entry.name, entry.value) != entry.value:
            raise InputError(
                f"{places[entry.name]} and {entry.value} both bring a method named "
                f"{entry.name!r}: uninstall one of the packages"
            )
    return places


def _places() -> dict[str, str]:
    """Return all methods; AFCL's own and those of this process come first."""
    return {**_plugins(METHODS), **_REGISTRY}


def method_names() -> list[str]:
    """Return the names of all methods, sorted."""
    return sorted(_places())


def register_method(name: str, kind: type[Any]) -> None:
    """Add a method under a name of its own, for this process.

    A package adds methods for good by an entry point of the group ``afcl.methods``.

    Parameters
    ----------
    name : str
        Not taken yet; the class's own `name`.
    kind : type
        A class of the form of :class:`afcl.core.protocol.Method`, found by its name in
        its module.
    """
    place = f"{kind.__module__}:{kind.__name__}"
    if _places().get(name, place) != place or ":" in name:
        raise InputError(f"the name {name!r} is taken: choose another")
    _REGISTRY[name] = place


def load_payloads() -> None:
    """Import every method, so that the codec knows what their messages are made of."""
    for place in _REGISTRY.values():
        _load(place)
    for place in [*_plugins(METHODS).values(), *_plugins(WRAPPERS).values()]:
        # A broken package must not keep others' messages from being read.
        with suppress(InputError):
            _load(place)


def get_method(name: str) -> AnyMethod:
    """Return the method of this name; `any-k:NAME` finds k for one that needs it."""
    if name in _REGISTRY:
        made: AnyMethod = _load(_REGISTRY[name])()
        return made
    wrapper, colon, inner = name.partition(":")
    group, known = (WRAPPERS, wrapper) if colon else (METHODS, name)
    if known not in _plugins(group):
        raise InputError(_unknown(name))
    kind = _load(_plugins(group)[known])
    brought: AnyMethod = kind(inner) if colon else kind()
    return brought


def _load(place: str) -> Any:
    """Import what stands at "module:attribute"."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{place} cannot be loaded ({error})") from error


def _unknown(name: str) -> str:
    text = f"unknown method {name!r}; choose one of {', '.join(method_names())}"
    if any(place.startswith("afcl_bench.") for place in _plugins(METHODS).values()):
        return text
    return f"{text}; AFCL's rivals and any-k: come with {INSTALL}"
