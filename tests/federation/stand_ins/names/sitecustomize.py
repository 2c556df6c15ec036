# SPDX-License-Identifier: Apache-2.0
"""Names of machines that are none: they resolve as ``AFCL_TEST_NAMES`` says.

Every process of the engine is a Python that finds this on its path, so that nobody has
to write to /etc/hosts.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

_NAMES: dict[object, str] = json.loads(os.environ.get("AFCL_TEST_NAMES", "{}"))
_getaddrinfo = socket.getaddrinfo


def _resolved(host: Any, *more: Any, **keywords: Any) -> Any:
    return _getaddrinfo(_NAMES.get(host, host), *more, **keywords)


socket.getaddrinfo = _resolved
