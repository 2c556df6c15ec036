# SPDX-License-Identifier: Apache-2.0
"""A site whose rows only its own program can find: ``afcl join --data rows.py``.

The file defines ``rows()``, which returns a source of rows with named columns, such as
a :class:`~afcl.runtime.cluster.ClusterTable`. It is run on the site's own machine, in a
new process for every request.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from afcl.exceptions import AfclError, InputError

#: What a file of rows ends with if it is a program.
PROGRAM = ".py"
#: What such a program defines.
FUNCTION = "rows"


def rows_from(path: Path) -> Any:
    """Run a site's program and return the source of rows it gives.

    Parameters
    ----------
    path : Path
        A Python file that defines ``rows()``.

    Raises
    ------
    InputError
        If there is no such file or function, if it fails, or if what it returns is no
        source of rows with named columns.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; --data wants a file of rows")
    try:
        function = runpy.run_path(str(path)).get(FUNCTION)
        source = function() if callable(function) else None
    except AfclError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:
        raise InputError(f"{path} failed: {type(error).__name__}: {error}") from error
    if not getattr(source, "streamed", False) or not getattr(source, "columns", ()):
        raise InputError(
            f"{path}: rows() must return a ClusterTable of a frame with named columns"
        )
    return source
