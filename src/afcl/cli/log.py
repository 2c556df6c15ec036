# SPDX-License-Identifier: Apache-2.0
"""``afcl log``: a site's own record of what has left it, and what that has cost."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.exceptions import InputError
from afcl.texts import plain

if TYPE_CHECKING:
    from afcl.privacy.ledger import Account, Ledger
    from afcl.runtime.live.membership import Membership
    from afcl.runtime.live.sent import Sent

Folder = Annotated[
    Path,
    typer.Argument(help="The --out of 'afcl join', or its --home.", metavar="DIR"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]


def log(folder: Folder, as_json: AsJson = False) -> None:
    """Tell what has left this site: when, to whom, what, how much, which bytes.

    A home tells it of all runs. What was kept ('afcl join --keep-sent') is in DIR/sent.
    """
    sent, damaged = _sent(folder)
    spent = _spent(folder)
    if as_json:
        content = {
            "sent": [asdict(entry) for entry in sent],
            "totals": totals(sent),
            "ledger": spent,
            "damaged": damaged,
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        for line in in_words(sent, damaged, spent):
            typer.echo(line)
    if damaged:
        raise InputError(
            f"the record in {folder} is damaged ({len(damaged)} of its lines cannot be "
            "read), so more has left than is shown: compare it with the one in the "
            "site's home, or with a copy"
        )


def totals(sent: list[Sent]) -> list[dict[str, Any]]:
    """Return messages and bytes by site, coordinator and run, in order."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for entry in sent:
        found[entry.site, entry.to, entry.run].append(entry.bytes)
    return [
        {"site": site, "to": to, "run": run, "messages": len(n), "bytes": sum(n)}
        for (site, to, run), n in found.items()
    ]


def in_words(
    sent: list[Sent], damaged: list[str], spent: list[dict[str, Any]]
) -> Iterator[str]:
    """Return the record for people, a line each."""
    for entry in sent:
        level = f"at {entry.level}, " if entry.level else ""
        yield (
            f"{entry.at} {plain(entry.message)}, {entry.bytes:,} bytes, {level}"
            f"sha256 {entry.sha256}{f', kept in {entry.kept}' if entry.kept else ''}"
        )
    yield from damaged
    for total in totals(sent):
        site, to, run = (plain(total[name]) or "?" for name in ("site", "to", "run"))
        yield (
            f"{site} has sent {total['messages']} messages, {total['bytes']:,} bytes, "
            f"to {to} (run {run})"
        )
    if not sent:
        known = "what has left this site is not known"
        yield known if damaged else "nothing has left this site"
    for account in spent:
        yield from _account_in_words(account)


def _account_in_words(account: dict[str, Any]) -> Iterator[str]:
    limit = "" if account["budget"] is None else f" of {account['budget']:g}"
    most = account["runs_allowed"]
    allowed = "" if most is None else f" of {most}"
    yield (
        f"the ledger has {len(account['released'])} releases of "
        f"{plain(account['data'])}; epsilon {account['epsilon']:.3g}{limit} is spent; "
        f"{account['runs']}{allowed} runs have told something without an epsilon"
    )
    for release in account["released"]:
        run = f" (run {plain(release['run'])})" if release["run"] else ""
        yield f"  {plain(release['purpose'])}{run}"


def _sent(folder: Path) -> tuple[list[Sent], list[str]]:
    from afcl.runtime.live.membership import SITE
    from afcl.runtime.live.sent import SENT, read_sent

    if (folder / SITE).is_file() and not (folder / SENT).is_file():
        return [], []
    return read_sent(folder)


def _spent(folder: Path) -> list[dict[str, Any]]:
    """Return what the ledger says of the site's rows, or of all rows of a home."""
    from afcl.privacy.ledger import Account, Ledger
    from afcl.runtime.live.member import LEDGER
    from afcl.runtime.live.membership import SITE, open_membership
    from afcl.runtime.live.views import home_folder

    if not (folder / SITE).is_file():
        ledger = Ledger(folder / LEDGER, None)
        return [_shown(ledger, account) for account in ledger.accounts()]
    member = open_membership(folder)
    home = Path(member.home) if member.home else home_folder()
    path = Path(member.ledger) if member.ledger else home / LEDGER
    ledger = Ledger(path, member.budget, runs=member.runs)
    own = Account((member.dataset,) if member.dataset else (), _marks(folder, member))
    return [_shown(ledger, each) for each in ledger.accounts() if each.shares(own)]


def _marks(folder: Path, member: Membership) -> tuple[str, ...]:
    """Return what the site's rows are known by, in all answers if it stays."""
    from afcl.runtime.live.membership import SITE, open_membership
    from afcl.runtime.live.staying import ANSWERS

    past = sorted((folder / ANSWERS).glob(f"*/{SITE}"))
    members = [member, *(open_membership(path.parent) for path in past)]
    marks = [mark for each in members for mark in (each.rows, each.fingerprint)]
    return tuple(dict.fromkeys(mark for mark in marks if mark))


def _shown(ledger: Ledger, account: Account) -> dict[str, Any]:
    return {
        "data": ", ".join(account.names),
        "epsilon": ledger.cost(account),
        "delta": ledger.delta,
        "budget": ledger.budget,
        "runs": len(account.runs),
        "runs_allowed": ledger.runs,
        "released": [asdict(release) for release in account.released],
    }
