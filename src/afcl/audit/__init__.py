# SPDX-License-Identifier: Apache-2.0
"""The audit: what a server could recover, level by level, by looking and by lying.

Real runs, tapped at every site; the attacks of :mod:`afcl.privacy` on the decoded
bytes; a coordinator that lies to the sites' own code (:mod:`afcl.audit.lies`); the
promises of every level checked. See docs/privacy.md.
"""

from __future__ import annotations

from afcl.audit.findings import AcrossRuns, Attack, Attempt, Audit, LevelFinding
from afcl.audit.ladder import audit, default_levels

__all__ = [
    "AcrossRuns",
    "Attack",
    "Attempt",
    "Audit",
    "LevelFinding",
    "audit",
    "default_levels",
]
