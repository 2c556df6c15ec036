# SPDX-License-Identifier: Apache-2.0
"""How kernels are compiled, and when compiled code from the disk may be used again.

Numba keeps compiled functions in files and looks only at the file a function stands
in: a function that was compiled together with another module's would go on with that
module's old code. So the files are named by the sources of all kernels as well. A new
name, rather than a new stamp inside, also keeps processes apart that start at once:
Numba writes its index before the code, and would let one read the other's old code.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from importlib.resources import files
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite.binding import parse_assembly, parse_bitcode
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime.nrt import rtsys

from afcl.kernels.sweeping import nothing_swept

#: Bytes of the sources' digest.
DIGEST = 6

F = TypeVar("F", bound=Callable[..., Any])


@cache
def sources_digest() -> str:
    """Return what stands for all kernels' sources, and for NumPy, in a file's name."""
    # Numba looks at a function's own file only: inlined kernels of others would be
    # stale.
    digest = blake2b(np.__version__.encode(), digest_size=DIGEST)
    # Its constants are compiled in.
    digest.update(files("afcl").joinpath("parts.py").read_bytes())
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


class _CacheFiles(CompileResultCacheImpl):
    """Names the files of one function, and makes code of them; Numba finds the folder.

    That is the one beside the module, or the user's where nothing can be written there.
    """

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        parent: Any = super()
        return f"{parent.get_filename_base(fullname, abiflags)}-{sources_digest()}"

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return the code of a file, its intermediate form unread.

        Beside what the machine runs stands what other functions are compiled with. To
        read it takes most of the time, and it is rarely asked for.
        """
        parent: Any = super()
        try:
            (name, kind, (runs, inlined)), described, *others = payload
            # Numba would find these names in the form that is not read.
            known = target_context.codegen()._engine._defined_symbols
            called = described.llvm_cpython_wrapper_name
        except (AttributeError, TypeError, ValueError):  # another Numba's file
            return parent.rebuild(target_context, payload)
        known.add(called)
        unread = (name, kind, (runs, _nothing()))
        made = parent.rebuild(target_context, (unread, described, *others))
        made.library._get_module_for_linking = cache(partial(parse_bitcode, inlined))
        return made


@cache
def _nothing() -> bytes:
    """Return the intermediate form of no code at all."""
    form: bytes = parse_assembly("").as_bitcode()
    return form


class _Cache(FunctionCache):
    """Code on disk, which is loaded without what only a compiler has to know.

    Numba reads all it knows of Python and NumPy before it loads anything: as much time
    as importing it. Loaded code needs its memory management alone; where something has
    to be compiled after all, the compiler sees to the rest by itself.
    """

    _impl_class = _CacheFiles

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, None where there is none on disk."""
        parent: Any = self
        with nothing_swept(), parent._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            return parent._load_overload(sig, target_context)


def compiled(**options: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function, and keeps the code on disk.

    Parameters
    ----------
    **options
        Of :func:`numba.njit`. Kernels let go of the interpreter's lock in any case.
    """
    compile_lazily = njit(nogil=True, **options)

    def decorate(function: F) -> F:
        kernel: Any = compile_lazily(function)
        if kernel is not function:  # it is with NUMBA_DISABLE_JIT=1
            with suppress(RuntimeError):  # no folder to write to: compile every time
                kernel._cache = _Cache(function)  # type: ignore[no-untyped-call]
        return cast(F, kernel)

    return decorate
