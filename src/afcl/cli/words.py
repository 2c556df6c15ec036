# SPDX-License-Identifier: Apache-2.0
"""What was found, in a few lines for a terminal."""

from __future__ import annotations

from typing import Any

from afcl.registry import CONNECTED, INDICES, LEVELS, OF_CONNECTED
from afcl.reliance import (
    CLUSTERS,
    NO_CLUSTERS,
    confidence_words,
    filled_words,
    flaw_of,
    levels_words,
    reliance_of,
    set_aside_words,
    verdict_words,
)

#: What is said of the rows if the method is a rival.
RIVAL_SENT = "docs/methods.md says what this method uploads"
#: What is said instead of a level's own words if its noise can be repeated.
SEEDED_SENT = "whoever knows the seed can take the noise off again"


def found_nothing(result: dict[str, Any]) -> bool:
    """Whether the answer is that there are no clusters."""
    return bool(result["n_clusters"] == 1 and _verdict(result) == NO_CLUSTERS)


def _verdict(result: dict[str, Any]) -> str:
    """Return whether there are clusters; "" in an older result."""
    return str((result.get("structure") or {}).get("verdict", ""))


def headline(result: dict[str, Any]) -> str:
    """Say how many clusters there are, without a full stop."""
    sites, k = result["sites"], result["n_clusters"]
    text = f"{k} {'cluster' if k == 1 else 'clusters'}"
    if found_nothing(result):
        text = "No clusters found"
    return (
        f"{text} in {sum(site['rows'] for site in sites):,} rows "
        f"at {len(sites)} {'site' if len(sites) == 1 else 'sites'}"
    )


def trust_in_words(result: dict[str, Any]) -> list[str]:
    """Say how far the answer can be believed, if the result says so."""
    k, sure = result["n_clusters"], result.get("confidence")
    verdict = _verdict(result)
    lines = []
    # That there are clusters says the headline.
    if verdict != CLUSTERS:
        lines.append(verdict_words(verdict, None, k))
    if sure is not None:
        by_k = {int(other): share for other, share in sure["by_k"].items()}
        flaw = flaw_of(result.get("suspicions") or (), result.get("notes") or ())
        note = result.get("note") or ""
        meaning = reliance_of(verdict, sure["k"], k, note, flaw)
        lines.append(confidence_words(sure["k"], k, meaning, by_k))
    lines.append(levels_words(result.get("levels") or (), k))
    return [line for line in lines if line]


def in_words(result: dict[str, Any]) -> list[str]:
    """Say what was found, in a few lines."""
    sites, k = result["sites"], result["n_clusters"]
    sent = sum(site["bytes"] for site in sites)
    most = max(site["messages"] for site in sites)
    has_sizes = result["sizes"] and not found_nothing(result)
    sizes = f": {_sizes(result['sizes'])} rows." if has_sizes else "."
    lines = [headline(result) + sizes]
    shape = result.get("shape") or {}
    index = CONNECTED if CONNECTED in result["scores"] else "silhouette"
    if shape.get("name") == CONNECTED:
        lines.append(f"They need not be round: {shape['reason']}.")
    score = result["scores"].get(index)
    rivals = [
        (level["scores"][index], level["k"])
        for level in result["path"]
        if level["k"] != k and level["scores"].get(index) is not None
    ]
    if score is not None:
        title = {**OF_CONNECTED, "silhouette": INDICES["silhouette"].title}[index]
        text = f"{title.capitalize()} {score:.3f}"
        if rivals:
            rival, k = max(rivals)
            text += f"; next best k = {k} with {rival:.3f}"
            if index == CONNECTED and rival > score:
                text += " (of those with clear gaps the finest is taken)"
        lines.append(text + ".")
    lines += trust_in_words(result)
    aside = {site["name"]: site.get("set_aside", 0) for site in sites}
    gaps = {site["name"]: site.get("gaps", {}) for site in sites}
    lines += [line for line in [filled_words(gaps), set_aside_words(aside)] if line]
    lines.append(
        f"{result['rounds']} rounds, at most {most} "
        f"{'message' if most == 1 else 'messages'} a site, "
        f"{sent / 1000:,.1f} kB sent in all; {_sent(result)}."
    )
    lines += note_in_words(result)
    return lines + [f"Note: {text}." for text in result.get("notes", [])]


def note_in_words(result: dict[str, Any]) -> list[str]:
    """Say what the server had to do without, such as sums that could not be true."""
    return [result["note"]] if result.get("note") else []


def _sent(result: dict[str, Any]) -> str:
    """Say what left the sites."""
    level = result["parameters"]["privacy"]
    if level == "rival":
        return RIVAL_SENT
    known = LEVELS[_family(level)]
    seeded = known.noisy and result["parameters"].get("seeded_noise")
    return SEEDED_SENT if seeded else known.sent


def _family(level: str) -> str:
    """Return a level's name in the registry: what stands before `+` and brackets."""
    return level.partition("+")[0].partition("(")[0]


def _sizes(sizes: list[int]) -> str:
    shown = [f"{size:,}" for size in sizes[:12]]
    return ", ".join(shown) + (", …" if len(sizes) > 12 else "")
