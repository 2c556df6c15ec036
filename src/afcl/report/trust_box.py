# SPDX-License-Identifier: Apache-2.0
"""The box under the headline: how far the answer can be believed."""

from __future__ import annotations

from collections.abc import Sequence

from afcl.report.markup import (
    Html,
    cards,
    join,
    note,
    number,
    percent,
    section,
    tag,
)
from afcl.report.path import levels_drawn
from afcl.report.run_folder import (
    CLUSTERS,
    NO_CLUSTERS,
    UNCLEAR,
    RunFolder,
    TrustFacts,
)
from afcl.report.svg import WIDTH, Scale, figure, mark, marks, text
from afcl.report.words import WORTH, WORTHLESS, in_doubt, is_given, worth

#: Bars drawn; when there are more k the last bar is all the others.
BARS = 8
#: Height of a bar and the gap below it.
BAR = 24.0
#: Unstable clusters that are named; the others are counted.
NAMED = 5

#: What the test found, in a few words.
VERDICTS = {
    CLUSTERS: "Yes. Clusters explain the rows better than one single cloud does.",
    NO_CLUSTERS: "No. One single cloud explains the rows just as well.",
    UNCLEAR: "It cannot be told: what was heard mixes the rows too much.",
}


def trust_section(run: RunFolder) -> Html | None:
    """Return the section on trust; None where the method says nothing of it."""
    trust = run.trust
    if trust is None:
        return None
    answers = [
        tag("div", tag("dt", question), tag("dd", answer))
        for question, answer in _answers(run, trust)
    ]
    words = join(tag("p", _in_short(run, trust), class_="verdict"), tag("dl", answers))
    return section(
        "trust",
        "Can this be trusted?",
        tag(
            "div",
            cards("pair", words, _beside(run, trust)),
            class_=f"trust {_tone(run, trust)}",
        ),
    )


def _tone(run: RunFolder, trust: TrustFacts) -> str:
    """Return how the box looks: a success, a caution, or neither."""
    if trust.verdict == UNCLEAR or worth_of(run) == WORTHLESS:
        return "caution"
    return "neutral" if in_doubt(run) or trust.unstable else "good"


def worth_of(run: RunFolder) -> str:
    """Return what the confidence is worth; "" where it is not known or no use.

    A k that was asked for comes out by itself, and of clusters that a test does not
    see it says nothing that they come out again.
    """
    trust, k = run.trust, run.n_clusters
    if trust is None or trust.confidence is None or is_given(run):
        return ""
    if trust.verdict == UNCLEAR or (trust.verdict == NO_CLUSTERS and k != 1):
        return ""
    return worth(trust.confidence)


def _in_short(run: RunFolder, trust: TrustFacts) -> str:
    """Return the answer to the section's question."""
    if trust.verdict == NO_CLUSTERS:
        return "There are no clusters to be seen."
    if trust.verdict == UNCLEAR:
        return "No: there may be no clusters at all."
    if trust.verdict == CLUSTERS and is_given(run):
        return "There are clusters; their number was given."
    word = worth_of(run)
    if not word:
        return "Only in part: not everything was tested."
    if trust.unstable and not in_doubt(run):
        return f"Their number: {word}. Not every cluster comes back."
    is_sure = word == WORTH[0][1]
    return "Yes, it can be relied on." if is_sure else f"{word.capitalize()}."


def _answers(run: RunFolder, trust: TrustFacts) -> list[tuple[str, object]]:
    """Return the questions a reader has, each with its answer."""
    found: list[tuple[str, object]] = []
    if trust.verdict:
        said = VERDICTS[trust.verdict]
        if trust.gain is not None:
            said += f" Gain {number(trust.gain, 2)} nats a row."
        found.append(("Are there clusters at all?", said))
    if trust.confidence is not None and not is_given(run):
        found.append(("Would the same number come out again?", _again(run, trust)))
    if len(trust.stabilities) > 1:
        found.append(("Would the clusters be the same?", _same(trust)))
    others = [k for k in trust.levels if k != run.n_clusters]
    if others:
        found.append(("Also worth a look", _levels(run, others)))
    return found


def _again(run: RunFolder, trust: TrustFacts) -> str:
    assert trust.confidence is not None
    said = f"k = {run.n_clusters} came out in {percent(trust.confidence)} of the tries"
    word = worth_of(run)
    return f"{said}: {word}." if word else f"{said}."


def _same(trust: TrustFacts) -> str:
    """Name the clusters that come back least, if little of them does."""
    weak, parts = trust.unstable, trust.stabilities
    if not weak:
        return f"Yes. At least {percent(min(parts))} of every cluster comes back."
    named = [f"cluster {c} ({percent(parts[c])})" for c in weak[:NAMED]]
    more = f" and {len(weak) - NAMED} more" if len(weak) > NAMED else ""
    return f"Not all. Least stable: {', '.join(named)}{more}."


def _levels(run: RunFolder, levels: Sequence[int]) -> Html:
    """Name other believable k, each with a way to its place on the path."""
    drawn = levels_drawn(run)
    parts: list[object] = ["k = "]
    for i, k in enumerate(levels):
        parts += [", "] if i else []
        parts.append(tag("a", k, href=f"#k-{k}") if k in drawn else str(k))
    return join(parts, ": their clusters come back.")


def _beside(run: RunFolder, trust: TrustFacts) -> Html | None:
    """Return the bars, and the terms explained to somebody who is no statistician."""
    said = []
    if trust.gain is not None:
        said.append(
            "Gain: how much better clusters explain a row than one cloud does, "
            "beyond what chance would give; at 0 or below there is nothing to find."
        )
    if (trust.confidence is not None and not is_given(run)) or trust.stabilities:
        said.append(
            "A try draws anew from what the sites told and looks for clusters again; "
            "what rests on chance seldom comes back."
        )
    return join(_bars(run, trust), note(" ".join(said))) if said else None


# ------------------------------------------------------------------ bars


def bars_of(run: RunFolder, trust: TrustFacts) -> list[tuple[str, float, bool]]:
    """Return the bars: what each is called, its share, and whether it is the answer.

    The answer has one always; beyond `BARS` the rarest are one bar, the last.
    """
    chosen = run.n_clusters or 0
    shares = {chosen: trust.confidence or 0.0, **dict(trust.shares)}
    order = sorted(shares, key=lambda k: (k != chosen, -shares[k], k))
    shown = order if len(order) <= BARS else order[: BARS - 1]
    bars = [(f"k = {k}", shares[k], k == chosen) for k in sorted(shown)]
    rest = order[len(shown) :]
    if rest:
        bars.append((f"{len(rest)} others", sum(shares[k] for k in rest), False))
    return bars


def _bars(run: RunFolder, trust: TrustFacts) -> Html | None:
    """Draw how often every k came out."""
    if not trust.shares or is_given(run):
        return None
    x = Scale(0.0, 1.0, 72.0, WIDTH - 106)
    parts: list[object] = []
    bars = bars_of(run, trust)
    for row, (name, share, is_chosen) in enumerate(bars):
        top = 6 + BAR * row
        long = max(1.0, x(share) - x.start)
        box = {"x": x.start, "y": top, "width": long, "height": BAR - 7}
        bold = " label" if is_chosen else ""
        beside = percent(share) + (", chosen" if is_chosen else "")
        tip = f"{name}: {percent(share)} of the tries"
        kind = "plain-bar" if is_chosen else "plain-bar faint"
        parts.append(mark("rect", tip, kind, **box))
        parts.append(text(name, x.start - 8, top + 13, f"tick end{bold}"))
        parts.append(text(beside, x.start + long + 6, top + 13, f"tick{bold}"))
    drawing = figure(
        "How often each number of clusters came out",
        "; ".join(f"{name}: {percent(share)}" for name, share, _ in bars),
        marks(parts, label="numbers of clusters by how often they came out"),
        height=10 + BAR * len(bars),
        class_="shares-of-k",
    )
    return join(tag("h3", "How often each number of clusters came out"), drawing)
