# SPDX-License-Identifier: Apache-2.0
"""Why every cluster is one, as a fitted model says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from afcl.estimators.kpath import frame_of
from afcl.exceptions import InputError
from afcl.report.profile_facts import ClusterProfile, profiles_of


class ClusterProfiles(Sequence[ClusterProfile]):
    """The clusters of an answer, each with what makes it one.

    A sequence of :class:`ClusterProfile`, the largest cluster first; empty where the
    server hears no cells (the presets `paper` and `matlab`, most rivals).
    """

    def __init__(self, profiles: Sequence[ClusterProfile] = ()) -> None:
        self._profiles = tuple(profiles)

    @classmethod
    def of(cls, result: Mapping[str, Any] | None) -> ClusterProfiles:
        """Return those of a result; none of one that does not say it."""
        return cls(() if result is None else profiles_of(result))

    def __len__(self) -> int:
        return len(self._profiles)

    @overload
    def __getitem__(self, place: int) -> ClusterProfile: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[ClusterProfile, ...]: ...

    def __getitem__(
        self, place: int | slice
    ) -> ClusterProfile | tuple[ClusterProfile, ...]:
        return self._profiles[place]

    def __iter__(self) -> Iterator[ClusterProfile]:
        return iter(self._profiles)

    def to_frame(
        self,
        kind: Literal["polars", "pandas"] = "polars",
        by: Literal["cluster", "column"] = "cluster",
    ) -> Any:
        """Return them as a data frame.

        Parameters
        ----------
        kind : {"polars", "pandas"}, default="polars"
            Whose frame it is; pandas has to be installed.
        by : {"cluster", "column"}, default="cluster"
            A row per cluster, with its figures, its rule and a sentence; or a row per
            cluster and column, with centre, spread, the mean of the others and the
            column's share in what sets the cluster apart.

        Returns
        -------
        frame : DataFrame
        """
        if by == "cluster":
            return frame_of(_by_cluster(self._profiles), kind)
        if by == "column":
            return frame_of(_by_column(self._profiles), kind)
        raise InputError(f"by={by!r} is unknown: give 'cluster' or 'column'")

    def __repr__(self) -> str:
        """Say every cluster in words, a line each."""
        lines = [f"{each.cluster}: {each.in_words}" for each in self._profiles]
        return "\n".join(lines) or "ClusterProfiles(empty)"


def _by_cluster(profiles: Sequence[ClusterProfile]) -> dict[str, list[Any]]:
    names = ("cluster", "rows", "nearest", "separation", "silhouette", "stability")
    found = {name: [getattr(each, name) for each in profiles] for name in names}
    return {
        **found,
        "sites": [each.sites for each in profiles],
        "apart": [[each.columns[j] for j in each.telling] for each in profiles],
        "rule": [each.rule_text for each in profiles],
        "in_words": [each.in_words for each in profiles],
    }


def _by_column(profiles: Sequence[ClusterProfile]) -> dict[str, list[Any]]:
    return {
        "cluster": [each.cluster for each in profiles for _ in each.columns],
        "column": [name for each in profiles for name in each.columns],
        "center": [value for each in profiles for value in each.center],
        "spread": [value for each in profiles for value in each.spreads],
        "others": [value for each in profiles for value in each.others],
        "share": [value for each in profiles for value in each.shares],
    }
