# SPDX-License-Identifier: Apache-2.0
"""The box under the headline: how far the answer can be believed."""

from __future__ import annotations

from collections.abc import Sequence

from afcl.reliance import (
    ALSO,
    CLUSTERS,
    NO_CLUSTERS,
    RELIANCE,
    UNCLEAR,
    UNRELIABLE,
    confidence_words,
    percent,
    verdict_words,
)
from afcl.report.markup import Html, cards, join, note, section, tag
from afcl.report.path import levels_drawn
from afcl.report.run_folder import RunFolder, TrustFacts
from afcl.report.svg import WIDTH, Scale, figure, mark, marks, text
from afcl.report.words import in_doubt, is_given, reliance_on

#: Bars drawn; when there are more k the last bar is all the others.
BARS = 8
#: Height of a bar and the gap below it.
BAR = 24.0
#: Unstable clusters that are named; the others are counted.
NAMED = 5

#: What goes before the sentence on what the test found.
SHORT = {CLUSTERS: "Yes. ", NO_CLUSTERS: "No. ", UNCLEAR: ""}


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
    if trust.verdict == UNCLEAR or reliance_on(run) == UNRELIABLE:
        return "caution"
    return "neutral" if in_doubt(run) or trust.unstable else "good"


def _in_short(run: RunFolder, trust: TrustFacts) -> str:
    """Return the answer to the section's question."""
    if trust.verdict == NO_CLUSTERS:
        if run.n_clusters == 1 and reliance_on(run) == UNRELIABLE:
            return "No clusters to be seen, but most resamples show some."
        return "There are no clusters to be seen."
    if trust.verdict == UNCLEAR:
        return "No: there may be no clusters at all."
    if trust.verdict == CLUSTERS and is_given(run):
        return "There are clusters; their number was given."
    word = reliance_on(run)
    if not word:
        return "Only in part: not everything was tested."
    if trust.unstable and not in_doubt(run):
        return f"Their number: {word}. Not every cluster comes back."
    is_sure = word == RELIANCE[0][1]
    return f"Yes, it {word}." if is_sure else f"{word.capitalize()}."


def _answers(run: RunFolder, trust: TrustFacts) -> list[tuple[str, object]]:
    """Return the questions a reader has, each with its answer."""
    found: list[tuple[str, object]] = []
    k = run.n_clusters or 0
    if trust.verdict:
        answer = verdict_words(trust.verdict, trust.gain, k)
        found.append(("Are there clusters at all?", SHORT[trust.verdict] + answer))
    if trust.confidence is not None and not is_given(run):
        answer = confidence_words(
            trust.confidence, k, reliance_on(run), dict(trust.shares), others=0
        )
        found.append(("Would the same number come out again?", answer))
    if len(trust.stabilities) > 1:
        found.append(("Would the clusters be the same?", _same(trust)))
    others = [other for other in trust.levels if other != k]
    if others:
        found.append((ALSO, _levels(run, others)))
    return found


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
    sentences = []
    if trust.verdict == CLUSTERS and trust.gain is not None:
        sentences.append(
            "Nats measure how well a row is explained, less a price for every cluster. "
            "Rows without clusters may gain a little too; that is allowed for."
        )
    if (trust.confidence is not None and not is_given(run)) or trust.stabilities:
        sentences.append(
            "A resample draws anew from what the sites told, and clusters are looked "
            "for again; what rests on chance seldom comes back."
        )
    return join(_bars(run, trust), note(" ".join(sentences))) if sentences else None


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
        tip = f"{name}: {percent(share)} of the resamples"
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
