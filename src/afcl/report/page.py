# SPDX-License-Identifier: Apache-2.0
"""The page: words, sections, style and script in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from afcl.report import words
from afcl.report.answers import answers_section
from afcl.report.clusters import clusters_section
from afcl.report.left_out import left_out_section
from afcl.report.map import map_section
from afcl.report.markup import Html, join, section, tag
from afcl.report.path import path_section
from afcl.report.run_folder import RunFolder
from afcl.report.run_state import RunState, state_of
from afcl.report.svg import hatchings
from afcl.report.timeline import timeline_section
from afcl.report.trust_box import trust_section

#: Sections of the page: their mark, and what the bar on top calls them.
PARTS = (
    ("path", "How many"),
    ("clusters", "Clusters"),
    ("map", "Map"),
    ("run", "The run"),
)
#: Suspicions that are shown; the others are counted.
SUSPICIONS = 8


@cache
def asset(name: str) -> str:
    """Return a file that belongs to the page."""
    return (files("afcl.report") / "assets" / name).read_text(encoding="utf-8")


def body(run: RunFolder, state: RunState) -> Html:
    """Return everything that changes while a run goes on."""
    level, meaning = words.privacy(run)
    return join(
        tag(
            "header",
            tag("p", words.subtitle(run), class_="over"),
            tag("h1", words.headline(run)),
            _when_and_how(run),
            tag(
                "p",
                state.text,
                id="status",
                class_=f"status is-{state.word}",
                role="status",
            ),
        ),
        _suspicions(run),
        trust_section(run),
        tag(
            "div",
            [tag("p", text, class_="lead") for text in words.how_sure(run)],
            tag(
                "dl",
                [tag("div", tag("dt", n), tag("dd", v)) for n, v in words.tiles(run)],
                class_="tiles",
            ),
            tag("p", tag("b", f"Privacy: {level}. "), meaning),
            _cautions(run),
            class_="facts",
        ),
        tag(
            "nav",
            [tag("a", name, href=f"#{part}") for part, name in PARTS],
            aria_label="Parts of the page",
            class_="screen",
        ),
        path_section(run),
        clusters_section(run),
        answers_section(run),
        map_section(run),
        left_out_section(run),
        timeline_section(run),
        tag("footer", tag("p", _made_with(run))),
    )


def _suspicions(run: RunFolder) -> Html | None:
    """Return what looked odd about the data: it comes before what was made of them."""
    if not run.suspicions:
        return None
    lines = list(run.suspicions[:SUSPICIONS])
    more = len(run.suspicions) - len(lines)
    if more:
        lines.append(f"And {more} more: see suspicions in result.json.")
    return section(
        "data",
        "Look at the data first",
        tag("ul", [tag("li", text) for text in lines], class_="cautions"),
    )


def _cautions(run: RunFolder) -> Html | None:
    cautions = words.cautions(run)
    if not cautions:
        return None
    return tag("ul", [tag("li", text) for text in cautions], class_="cautions")


def _made_with(run: RunFolder) -> str:
    made = ", ".join(f"{name} {number}" for name, number in run.versions.items())
    seed = run.parameters.get("seed")
    text = "Clusters are numbered from 0, the largest first."
    if seed is not None:
        text += f" Seed {seed}."
    return f"{text} Made with {made}." if made else text


def _when_and_how(run: RunFolder) -> Html | None:
    """Return the day of the run and what was typed."""
    parts: list[object] = []
    began = run.history.began
    if began is not None:
        day = datetime.fromtimestamp(began, tz=UTC).strftime("%Y-%m-%d %H:%M")
        parts.append(f"Run of {day} UTC")
    if run.command:
        parts += [", " if parts else "", tag("code", run.command)]
    return tag("p", *parts, class_="made") if parts else None


def page(
    run: RunFolder, state: RunState | None = None, scripts: Sequence[str] = ()
) -> str:
    """Return the whole page; a live one brings a script of its own."""
    now = state_of(run) if state is None else state
    programs = [asset("page.js"), *scripts]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(programs)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{words.headline(run)} · {run.name}"),
        Html(f"<style>{asset('page.css')}</style>"),
    )
    inside = join(
        hatchings(),
        tag("main", body(run, now), id="page"),
        tag("div", id="tip", role="tooltip", hidden=True),
        [Html(f"<script>{program}</script>") for program in programs],
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', inside), lang='en')}\n"


def policy(programs: Sequence[str]) -> str:
    """Return what the page may load and run: itself, and nothing a file smuggled in."""
    hashes = " ".join(f"'sha256-{_digest(program)}'" for program in programs)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _digest(program: str) -> str:
    return base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
