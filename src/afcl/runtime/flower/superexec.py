# SPDX-License-Identifier: Apache-2.0
"""What makes a site's answers: a process each, of one that has loaded all it needs.

Flower starts a new Python for every request, and loading takes it longer than most
answers take. On Linux ours (this module, run as a program) forks instead: an answer has
a process of its own as before, which knows nothing of other answers, and ends with it.
The process that forks sees no rows and no messages, and starts no threads but Flower's
that looks after its parent.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flwr.supercore.constant import TaskType
from flwr.supercore.exit import exit_handler
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
from flwr.supercore.tls import validate_and_resolve_root_certificates
from flwr.supernode.runtime.run_clientapp import run_clientapp


class ForkingExecutor(SubprocessExecutor):
    """Forks for an answer; all else is started as Flower does."""

    def __init__(self) -> None:
        self._answering: set[int] = set()

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Begin to make an answer."""
        if spec.task_type != TaskType.CLIENT_APP:
            return super().launch(spec)
        # The only other thread holds no locks: it looks, and sleeps.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _end_with(lambda: _answer(spec))
        self._answering.add(child)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Let go of the processes that have ended."""
        for child in list(self._answering):
            try:
                ended = os.waitpid(child, os.WNOHANG)[0]
            except ChildProcessError:  # the system lets go of them where it is told to
                ended = child
            if ended:
                self._answering.discard(child)


def _answer(spec: ExecutionSpec) -> None:
    """Do in this process what ``flwr-clientapp`` does in one of its own."""
    # What the parent wanted done at its own end is not for this process.
    exit_handler.registered_exit_handlers.clear()
    if spec.suppress_output:
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(silence, stream.fileno())
    run_clientapp(
        runtime_api_address=spec.runtime_api_address,
        token=spec.token,
        insecure=spec.insecure,
        certificates=validate_and_resolve_root_certificates(
            spec.root_certificates_path, spec.insecure
        ),
        parent_pid=spec.parent_pid,
        runtime_dependency_install=spec.runtime_dependency_install,
    )


def _end_with(work: Callable[[], None]) -> None:
    """Do the work of a forked process, and end it: nothing of its parent's goes on."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _superexec(arguments: Sequence[str]) -> None:
    """Be a SuperExec that has loaded what answers are made with."""
    from flwr.supercore.cli import flower_superexec

    if sys.platform == "linux":
        from afcl.runtime.flower import client_app  # noqa: F401  (loaded once for all)

        inside: Any = run_superexec
        inside.get_executor = lambda *_, **__: ForkingExecutor()
    sys.argv = ["flower-superexec", *arguments]
    flower_superexec()


if __name__ == "__main__":
    _superexec(sys.argv[1:])
