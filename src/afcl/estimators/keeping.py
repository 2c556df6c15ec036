# SPDX-License-Identifier: Apache-2.0
"""A fitted clusterer as something to keep or to show: files, pickles, pages."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from sklearn.utils.validation import check_is_fitted

from afcl.estimators import storage
from afcl.estimators.pages import write_page
from afcl.estimators.profiles import ClusterProfiles
from afcl.export import Format, write_export

if TYPE_CHECKING:
    from afcl.estimators.federated import FederatedClusterer


class Keeping:
    """The part of a clusterer that outlives its process."""

    n_clusters_: int
    privacy_: str | None
    _result: dict[str, Any] | None
    #: When the run of the answer began and ended; older models do not know it.
    _times: list[float] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: what :meth:`save` keeps, and no training row."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return storage.without_rows(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle held; older ones held the rows, which go, and no trust."""
        super().__setstate__(storage.up_to_date(state))  # type: ignore[misc]

    def __copy__(self) -> Self:
        """Copy within this process, where the rows may stay."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy deeply within this process, where the rows may stay."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def save(self, path: Path | str) -> None:
        """Write the fitted model to a folder: ``model.json`` and ``arrays.npz``.

        Neither holds a training row (but for the `pooled-` references, whose server has
        them all); a :class:`Schedule` given as `participation` is not kept.
        """
        check_is_fitted(self, "n_clusters_")
        storage.save(cast("FederatedClusterer", self), Path(path))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a model that :meth:`save` wrote."""
        return cast(
            Self, storage.load(cast("type[FederatedClusterer]", cls), Path(path))
        )

    @property
    def cluster_profiles_(self) -> ClusterProfiles:
        """Why every cluster is one; see :class:`afcl.AFCL`."""
        check_is_fitted(self, "n_clusters_")
        return ClusterProfiles.of(self._result)

    def report(self, path: Path | str) -> Path:
        """Write the answer as one page that opens without a network.

        Parameters
        ----------
        path : Path or str
            The file, such as ``report.html``.

        Returns
        -------
        path : Path
            The file that was written.
        """
        check_is_fitted(self, "n_clusters_")
        model = cast("FederatedClusterer", self)
        result = storage.result_of(model)
        return write_page(result, model.trace_, Path(path), self._times)

    def export(self, path: Path | str, to: Format | None = None) -> Path:
        """Write scaling and nearest centre for other programs.

        Parameters
        ----------
        path : Path or str
            The file.
        to : {"onnx", "pmml", "json"} or None, default=None
            Its format; None: by the ending of `path`. See docs/how-to/export.md.

        Returns
        -------
        path : Path
            The file that was written.
        """
        check_is_fitted(self, "n_clusters_")
        result = storage.result_of(cast("FederatedClusterer", self))
        return write_export(result, Path(path), to)

    def _sk_visual_block_(self) -> _Block:
        """Say k and the privacy level below the name in scikit-learn's diagrams."""
        text = ""
        if hasattr(self, "n_clusters_"):
            many = "cluster" if self.n_clusters_ == 1 else "clusters"
            text = f"{self.n_clusters_} {many}"
            if self.privacy_ is not None:
                text = f"{text}, privacy level {self.privacy_}"
        return _Block(self, type(self).__name__, str(self), text)


@dataclass
class _Block:
    """What scikit-learn's diagrams ask of an estimator that draws itself."""

    estimators: Any
    names: str
    name_details: str
    name_caption: str
    kind: str = "single"
    doc_link_label: str | None = None
    dash_wrapped: bool = True
