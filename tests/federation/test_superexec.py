# SPDX-License-Identifier: Apache-2.0
"""An answer has a process of its own, forked of one that has loaded everything."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")

from flwr.supercore.constant import TaskType
from flwr.supercore.exit import exit_handler
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor

from afcl.runtime.flower import superexec
from afcl.runtime.flower.superexec import ForkingExecutor

from .conftest import until

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only"),
]


def spec(kind: TaskType = TaskType.CLIENT_APP, silent: bool = False) -> ExecutionSpec:
    return ExecutionSpec(
        task_type=kind,
        runtime_api_address="127.0.0.1:1",
        token="token",
        insecure=True,
        root_certificates_path=None,
        runtime_dependency_install=False,
        parent_pid=os.getpid(),
        suppress_output=silent,
        task_id=1,
    )


def ended(executor: ForkingExecutor) -> bool:
    executor.reconcile()
    return not executor._answering


def test_an_answer_has_a_process_of_its_own_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def answer(**told: Any) -> None:
        handlers = len(exit_handler.registered_exit_handlers)
        text = f"{os.getpid()} {told['token']} {told['parent_pid']} {handlers}"
        (tmp_path / "said").write_text(text)
        sys.exit(0)

    monkeypatch.setattr(superexec, "run_clientapp", answer)
    exit_handler.add_exit_handler(lambda: None)
    executor = ForkingExecutor()
    assert executor.launch(spec()) == LaunchResult.accepted()
    (child,) = executor._answering
    until(lambda: ended(executor), 30)
    said = (tmp_path / "said").read_text().split()
    assert said == [str(child), "token", str(os.getpid()), "0"]
    assert exit_handler.registered_exit_handlers.pop()
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)


def test_an_answer_that_fails_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fail(**told: Any) -> None:
        sys.stdout.write("a word\n")
        raise ValueError("no answer")

    monkeypatch.setattr(superexec, "run_clientapp", fail)
    executor = ForkingExecutor()
    for silent in (True, False):
        executor.launch(spec(silent=silent))
        until(lambda: ended(executor), 30)
        told = capfd.readouterr()
        assert ("a word" in told.out) is not silent
        assert ("ValueError: no answer" in told.err) is not silent


def test_who_is_slow_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(superexec, "run_clientapp", lambda **told: time.sleep(600))
    executor = ForkingExecutor()
    executor.launch(spec())
    executor.launch(spec())
    assert len(executor._answering) == 2
    assert not ended(executor)
    first, second = executor._answering
    os.kill(first, 9)
    os.waitpid(first, 0)  # as if somebody else had let go of it
    os.kill(second, 9)
    until(lambda: ended(executor), 30)


def test_what_is_no_answer_is_started_as_flower_does(monkeypatch: pytest.MonkeyPatch):
    started: list[ExecutionSpec] = []

    def launch(self: object, told: ExecutionSpec) -> LaunchResult:
        started.append(told)
        return LaunchResult.accepted()

    monkeypatch.setattr(SubprocessExecutor, "launch", launch)
    executor = ForkingExecutor()
    executor.launch(spec(TaskType.SERVER_APP))
    assert [told.task_type for told in started] == [TaskType.SERVER_APP]
    assert not executor._answering


def test_it_is_our_executor_that_the_engine_uses(monkeypatch: pytest.MonkeyPatch):
    """Were it taken from another place, every answer would load everything anew."""
    inside: Any = run_superexec
    monkeypatch.setattr(inside, "get_executor", inside.get_executor)
    monkeypatch.setattr("flwr.supercore.cli.flower_superexec", lambda: None)
    monkeypatch.setattr("sys.argv", [])
    superexec._superexec([])
    made = inside.get_executor("subprocess", executor_config=None)
    assert isinstance(made, ForkingExecutor)
    names = inside.run_superexec.__code__.co_names
    assert "get_executor" in names
    assert "reconcile" in names
