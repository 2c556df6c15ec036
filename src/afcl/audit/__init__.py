# SPDX-License-Identifier: Apache-2.0
"""The audit: what an honest-but-curious server could recover, level by level.

Real runs, tapped at every site; the attacks of :mod:`afcl.privacy` on the decoded
bytes; the promises of every level checked. See docs/privacy.md.
"""

from __future__ import annotations

from afcl.audit.findings import AcrossRuns, Attack, Audit, LevelFinding
from afcl.audit.ladder import audit, default_levels

__all__ = ["AcrossRuns", "Attack", "Audit", "LevelFinding", "audit", "default_levels"]
