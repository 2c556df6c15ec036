# SPDX-License-Identifier: Apache-2.0
"""The shelf of methods: AFCL's presets and the rivals, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from afcl.core.protocol import AnyMethod
from afcl.exceptions import InputError

__all__ = ["get_method", "load_payloads", "method_names"]

#: Name -> module and class; a module is imported when its method is asked for.
_SHELF = {
    "afcl": ("afcl.methods.afcl", "Afcl"),
    "afcl-matlab": ("afcl.methods.afcl_matlab", "AfclMatlab"),
    "afcl-paper": ("afcl.methods.afcl_paper", "AfclPaper"),
    "afcl-w": ("afcl.methods.afcl_w", "AfclW"),
    "dk++": ("afcl.methods.dkpp", "DKPlusPlus"),
    "f-fcm": ("afcl.methods.f_fcm", "FFCM"),
    "fcm-exact": ("afcl.methods.fcm_exact", "FCMExact"),
    "fed-kernel-kmeans": ("afcl.methods.fed_kernel_kmeans", "FedKernelKMeans"),
    "fed-sc": ("afcl.methods.fed_sc", "FedSubspace"),
    "fedgem": ("afcl.methods.fedgem", "FedGEM"),
    "fedgengmm": ("afcl.methods.fedgengmm", "FedGenGMM"),
    "fedsc": ("afcl.methods.fedsc", "FedSpectral"),
    "ffcm-avg1": ("afcl.methods.ffcm", "FFCMAvg1"),
    "ffcm-avg2": ("afcl.methods.ffcm", "FFCMAvg2"),
    "fkm": ("afcl.methods.fkm", "FKM"),
    "hfdpc": ("afcl.methods.hfdpc", "HFDPC"),
    "k-fed": ("afcl.methods.kfed", "KFed"),
    "mufc": ("afcl.methods.mufc", "MUFC"),
    "pooled-bgmm": ("afcl.methods.pooled_bgmm", "PooledBGMM"),
    "pooled-ccl": ("afcl.methods.pooled_ccl", "PooledCCL"),
    "pooled-hdbscan": ("afcl.methods.pooled", "PooledHDBSCAN"),
    "pooled-kmeans": ("afcl.methods.pooled", "PooledKMeans"),
    "pooled-kmeans-sweep": ("afcl.methods.pooled", "PooledKMeansSweep"),
}

#: Wraps a method that must be told k, and finds it.
_ANY_K = "afcl.methods.any_k"


def method_names() -> list[str]:
    """Return the names of all methods, sorted."""
    return sorted(_SHELF)


def register_method(name: str, kind: type[Any]) -> None:
    """Put a method on the shelf under a name of its own, for this process.

    Parameters
    ----------
    name : str
        Not taken yet; the class's own `name`.
    kind : type
        A class of the form of :class:`afcl.core.protocol.Method`, found by its name in
        its module.
    """
    place = (kind.__module__, kind.__name__)
    if _SHELF.get(name, place) != place or name.startswith("any-k:"):
        raise InputError(f"the name {name!r} is taken: choose another")
    _SHELF[name] = place


def load_payloads() -> None:
    """Import every method, so that the codec knows what their messages are made of."""
    for module in (*(module for module, _ in _SHELF.values()), _ANY_K):
        import_module(module)


def get_method(name: str) -> AnyMethod:
    """Return the method of this name; `any-k:NAME` finds k for one that needs it."""
    if name.startswith("any-k:"):
        wrapper: AnyMethod = import_module(_ANY_K).any_k(name.removeprefix("any-k:"))
        return wrapper
    if name not in _SHELF:
        raise InputError(
            f"unknown method {name!r}; choose one of {', '.join(method_names())}"
        )
    module, kind = _SHELF[name]
    method: AnyMethod = getattr(import_module(module), kind)()
    return method
