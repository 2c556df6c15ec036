# SPDX-License-Identifier: Apache-2.0
"""Passes over rows on a GPU, and the only place that knows PyTorch and Triton.

Imported late, where rows are CUDA tensors or are to become some; not measured by the
coverage of the tests, which run where there is no GPU (``tests/kernels/gpu`` does).
"""

from __future__ import annotations

from typing import Any

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.kernels.arrays import ArrayPasses
from afcl.scale import Box


def passes_for(
    values: Any,
    box: Box | None,
    places: Ints | None,
    known: tuple[Floats, Floats] | None = None,
) -> ArrayPasses:
    """Return the fused passes where a CUDA tensor can have them, else the others.

    `known` are the extremes of its columns.
    """
    plain = ArrayPasses(values, box, places)
    try:
        from afcl.kernels.gpu.passes import FusedPasses, suits
    except ImportError:  # PyTorch without Triton
        return plain
    if not suits(values, box, places):
        return plain
    return FusedPasses(values, box, places, known)


def moved(values: Floats, device: str) -> Any:
    """Return a table's rows on a device, as they are."""
    try:
        import torch
    except ImportError:
        raise InputError(
            f"device {device!r} needs PyTorch: pip install 'afcl[gpu]'"
        ) from None
    try:
        place = torch.device(device)
    except RuntimeError:
        raise InputError(
            f"device {device!r} is unknown: give 'cuda', or 'cuda:1' for the second"
        ) from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "there is no GPU that PyTorch can use here: leave out the device, or "
            "install PyTorch for CUDA and the driver"
        )
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {device!r} is not there: PyTorch sees {torch.cuda.device_count()}"
        )
    return torch.from_numpy(values).to(place)
