# SPDX-License-Identifier: Apache-2.0
"""The shelf of methods: AFCL's presets and the rivals, by name."""

from __future__ import annotations

from importlib import import_module

from afcl.core.protocol import AnyMethod
from afcl.exceptions import InputError

__all__ = ["get_method", "load_payloads", "method_names"]

#: Name -> module and class; a module is imported when its method is asked for.
_SHELF = {
    "afcl": ("afcl.methods.afcl", "Afcl"),
    "afcl-matlab": ("afcl.methods.afcl_matlab", "AfclMatlab"),
    "afcl-paper": ("afcl.methods.afcl_paper", "AfclPaper"),
    "afcl-w": ("afcl.methods.afcl_w", "AfclW"),
}


def method_names() -> list[str]:
    """Return the names of all methods, sorted."""
    return sorted(_SHELF)


def load_payloads() -> None:
    """Import every method, so that the codec knows what their messages are made of."""
    for module, _ in _SHELF.values():
        import_module(module)


def get_method(name: str) -> AnyMethod:
    """Return the method of this name."""
    if name not in _SHELF:
        raise InputError(
            f"unknown method {name!r}; choose one of {', '.join(method_names())}"
        )
    module, kind = _SHELF[name]
    method: AnyMethod = getattr(import_module(module), kind)()
    return method
