# SPDX-License-Identifier: Apache-2.0
"""Balance between clients that upload often and those that rarely do, Eq. (8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Intensities


@dataclass(frozen=True, slots=True)
class Contribution:
    """One client's part in a round, as the server weighs it.

    Attributes
    ----------
    weight
        w of Eq. (8).
    sent
        (k, d), the seeds M as they were sent to this client.
    upload
        R, o, b and z: what the client made of them.
    """

    weight: float
    sent: Floats
    upload: Intensities

    @property
    def held(self) -> Ints:
        """Seeds that won rows, in the order of the upload's cells."""
        return np.flatnonzero(np.bincount(self.upload.owners))


def count(
    frequencies: Mapping[ClientId, int], participants: Iterable[ClientId]
) -> dict[ClientId, int]:
    """Return the frequencies theta after these participations (Algorithm 1, line 9)."""
    counted = dict(frequencies)
    for client in participants:
        counted[client] += 1
    return counted


def balance_weights(
    frequencies: Mapping[ClientId, int], balance: float
) -> dict[ClientId, float]:
    """Return w = xi / (xi + theta / sum theta) of every client, Eq. (8).

    `frequencies` is theta, `balance` is xi. Who uploads often weighs less; who never
    did has weight 1.
    """
    total = max(1, sum(frequencies.values()))
    return {
        client: balance / (balance + frequency / total)
        for client, frequency in frequencies.items()
    }
