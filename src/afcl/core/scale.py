# SPDX-License-Identifier: Apache-2.0
"""What of the scale travels: a client's ranges, and the box agreed on.

Both are made in :mod:`afcl.scale`, below this layer, where files can use them too.
"""

from __future__ import annotations

from afcl.core.messages import payload
from afcl.scale import Box, Ranges, given_box, minmax_box, no_box, ranges_of

__all__ = ["Box", "Ranges", "given_box", "minmax_box", "no_box", "ranges_of"]

payload(Box)
payload(Ranges)
