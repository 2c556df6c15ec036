# SPDX-License-Identifier: Apache-2.0
"""A site while it takes part: its engine started, watched, and ended in any case."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from afcl.cli.signals import Ended, ended_by_signals
from afcl.cli.waiting import Waiting
from afcl.durable import disk_trouble
from afcl.exceptions import InputError, Interrupted, Stopped, Terminated
from afcl.owner_only import all_owner_only

if TYPE_CHECKING:
    from afcl.runtime.live.engine import Launcher, Node

#: Seconds between two looks at the site's folder.
PAUSE = 0.3
#: Seconds for the engine to hand over the last answer, at least. A coordinator that
#: does not hear it waits for it for a day.
LAST = 2.0
#: The same, at most: if the engine says that it has not handed it over yet.
LONGEST = 60.0
#: What to do when it had to stop.
AGAIN = "the same command comes back into the run"


@contextmanager
def coming_back(out: Path) -> Iterator[None]:
    """Say how a site that was stopped comes back; one that never began has to begin."""
    from afcl.runtime.live.membership import SITE

    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; {AGAIN}") from None
    except Ended:
        raise Terminated(f"ended; {AGAIN}") from None
    except OSError as error:
        reason = disk_trouble(error)
        if reason is None or not (out / SITE).is_file():
            raise
        raise Stopped(f"{reason}; {AGAIN}") from error


@all_owner_only()
def take_part(
    launcher: Launcher,
    address: str,
    out: Path,
    ca: Path | None,
    key: Path | None,
    port: int,
    wait: float | None,
) -> None:
    """Start the engine's node, wait for the end, end the node whatever happens."""
    from afcl.cli.report import write_at_the_end

    for line in [] if ca is None else launcher.ending_soon(address, ca):
        print(f"warning: {line}", file=sys.stderr)
    with ended_by_signals(), launcher.join(out, address, ca, key, port) as node:
        _watch(out, node, Waiting(wait))
        _hand_over(node)
    page = write_at_the_end(out)
    look = "" if page is None else f"; look at {page} in a browser"
    typer.echo(f"Labels and result are in {out}{look}.")


def _hand_over(node: Node) -> None:
    """Let the engine hand over the last answer, that the end was heard."""
    until = time.monotonic() + LONGEST
    time.sleep(LAST)
    while node.busy and time.monotonic() < until:
        time.sleep(PAUSE)


def _watch(out: Path, node: Node, waiting: Waiting) -> None:
    """Say how the site fares, until it is done or cannot go on."""
    from afcl.cli.report import write_at_the_end
    from afcl.runtime.agreement import MAX_ROWS
    from afcl.runtime.live.membership import (
        DONE,
        JOINED,
        LEFT_OUT,
        REFUSED,
        open_membership,
    )
    from afcl.runtime.live.site_disk import read_word
    from afcl.runtime.live.trouble import read_trouble

    state, known, met, noted, answered = "", read_trouble(out), 0, 0, 0
    while state != DONE:
        disk = read_word(out)
        if disk:
            raise Stopped(f"{disk}; {AGAIN}")
        member, trouble = open_membership(out), read_trouble(out)
        left_out = member.state in LEFT_OUT and not member.waits
        if trouble != known:
            known = trouble
            if not left_out or trouble != member.reason:
                print(f"could not answer: {trouble}", file=sys.stderr)
        if left_out:
            write_at_the_end(out)
            how = "was refused" if member.state == REFUSED else "took no part"
            raise InputError(f"{member.name} {how}: {member.reason}")
        if member.state != state:
            state = member.state
            few = 0 < member.max_rows < MAX_ROWS  # what was agreed, not the usual
            agreed = f"; it may have {member.max_rows} rows" if few else ""
            typer.echo(f"{member.name}: {state}{agreed if state == JOINED else ''}")
        if member.answered > answered:
            answered = member.answered
            write_at_the_end(out)
            typer.echo(f"{member.name}: labels of answer {answered} are in {out}")
        for mark in member.met[met:]:
            typer.echo(f"{member.name}: summed with the members {mark}")
        met = len(member.met)
        for note in member.notes[noted:]:
            print(f"note: {note}", file=sys.stderr)
        noted = len(member.notes)
        alive = node.alive  # before it is asked why it is not
        kept_out = node.trouble()
        if kept_out is not None:
            raise InputError(kept_out)
        news = waiting.news(node.absent())
        if news:
            typer.echo(news)
        if not alive:
            raise Stopped(f"the engine ended by itself, see {node.log}; {AGAIN}")
        time.sleep(PAUSE)
