# SPDX-License-Identifier: Apache-2.0
"""AFCL as a scikit-learn clusterer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afcl.core.protocol import AnyMethod, Clustering
from afcl.estimators.federated import FederatedClusterer
from afcl.estimators.told import warn_user
from afcl.exceptions import PrivacyWarning, SmallClientsWarning
from afcl.methods.presets import resolve
from afcl.privacy import EXACT_WARNING, too_fine, too_small
from afcl.registry import SHAPE


class AFCL(FederatedClusterer):
    """Asynchronous federated clustering with an unknown number of clusters.

    Every client condenses its rows to cells of at least `min_cell` rows; the server
    places seeds on the union, has the rows of all clients summed up in ever finer
    groups (where there are three clients or more), merges them along a path of k and
    answers with the level that summaries prefer. No row leaves a client.

    Parameters
    ----------
    preset : {"default", "paper", "matlab"}
        `default` is what the project stands for; `paper` follows the published
        equations, `matlab` the published code. These two upload every row in a form
        that can be inverted, and warn.
    n_seeds : int or "auto"
        Seeds to start from; `auto` follows the number of rows.
    max_clusters : int or "auto"
        Largest number of clusters that may be the answer.
    criterion : {"auto", "silhouette", "simplified", "ch", "db", "bic", "free_bic"}
        What chooses the number of clusters.
    min_cell : int
        Smallest group of rows a client may describe.
    max_rounds : int
        Rounds after which a run ends in any case.
    contacts : int
        Messages a client is asked for, its first included, where cells of single
        clients are read (`summary`, `grouped`); with 1, no sums are asked for either.
    participation : None, float, array-like, "random" or Schedule
        None: everybody, always. A probability per round (one, or one per client);
        `random`: one U(0, 1) draw per client; or a schedule.
    scale : "minmax", "robust", (low, high) or None
        How columns are brought to one scale, agreed before anything else: by the
        clients' extremes, by their quantiles (a few far values then count as just
        outside), by public bounds, or not at all.
    missing : {"error", "drop", "impute", "available"}
        What to do with rows that hold NaN: refuse them; leave them out, labelled -1;
        fill what can be filled well; or let rows without gaps alone decide. The last
        two label every row that has a value.
    privacy : str or None
        None: for the default preset sums over all clients, if there are three and a
        common scale (`secure(plain)+summary`: a simulation masks nothing), otherwise
        `summary`; `exact` for the other two presets. Others are `grouped(5)`,
        `secure+grouped(5)`, `dp(8)` and `secure+dp(8)` (default preset; `dp` needs
        ``scale=(low, high)``); `affine` is the `paper` preset without its rows. See
        docs/privacy.md.
    learning_rate, balance : float
        eta and xi of the paper; presets `paper` and `matlab` only.
    cells_per_root, band, prune, candidates, drift
        Finer constants of the default preset.
    passes : int
        Different sums a client is asked for where sums over clients are read; at
        least 5. It refuses more than one beyond.
    cohort : int or None
        Clients whose sums are read together; at least 3. None: everybody, up to 256.
    holders : int
        Clients that hold rows of a group, at least 2, before its sums over clients are
        read; of other groups who has `min_cell` rows of its own tells them.
    max_cells : int
        Cells the server remembers before it condenses them, at least 1024; default
        preset only. See docs/how-to/server-memory.md.
    allow_one : bool
        Whether "no clusters", one for all rows, may be the answer; default preset only.
    granularity : {"auto", "coarse", "fine"}
        Which of several believable k (`levels_`) is the answer: the best one, the
        smallest or the largest; default preset only.
        See docs/how-to/number-of-clusters.md.
    shape : {"convex", "connected", "auto"}
        What clusters may look like: round ones; whatever hangs together, such as rings
        and chains; or that where it is seen in what the clients said. Default preset
        only. See docs/how-to/shapes.md.
    seeded_noise : bool
        Whether the noise of `dp` follows from `random_state` too, so that a simulation
        can be repeated; then it guarantees nothing. By default it comes from the
        operating system, and two fits differ.
    ordinal : mapping from str to sequence of str, or None
        Columns of frames whose levels have an order, and these from the lowest on, such
        as ``{"severity": ["mild", "moderate", "severe"]}``. Ordered categoricals of
        pandas have theirs by themselves.
    random_state : int, RandomState or None
        Seed of everything random but that noise.
    verbose : bool
        Log progress to the logger `afcl`.

    Examples
    --------
    >>> import numpy as np
    >>> from afcl import AFCL
    >>> rng = np.random.default_rng(0)
    >>> spots = np.array([[0, 0], [0, 9], [9, 0]])
    >>> north = np.vstack([rng.normal(s, 1, (40, 2)) for s in spots[:2]])
    >>> south = np.vstack([rng.normal(s, 1, (40, 2)) for s in spots[1:]])
    >>> model = AFCL(random_state=0).fit_clients([north, south])
    >>> model.n_clusters_
    3
    >>> [labels.shape for labels in model.client_labels_]
    [(80,), (80,)]

    References
    ----------
    Y. Zhang et al., "Asynchronous Federated Clustering with Unknown Number of
    Clusters", AAAI 2025.
    """

    def __init__(
        self,
        preset: str = "default",
        n_seeds: int | str = "auto",
        max_clusters: int | str = "auto",
        criterion: str = "auto",
        min_cell: int = 5,
        max_rounds: int = 100,
        contacts: int = 3,
        participation: Any = None,
        scale: Any = "minmax",
        missing: str = "error",
        privacy: str | None = None,
        learning_rate: float = 1e-3,
        balance: float = 1.0,
        random_state: Any = None,
        verbose: bool = False,
        *,
        cells_per_root: float = 3,
        band: float = 0.01,
        prune: float = 0.02,
        candidates: int = 6,
        drift: float = 0.01,
        passes: int = 6,
        cohort: int | None = None,
        holders: int = 3,
        max_cells: int = 1 << 20,
        allow_one: bool = True,
        granularity: str = "auto",
        shape: str = SHAPE,
        seeded_noise: bool = False,
        ordinal: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.preset = preset
        self.n_seeds = n_seeds
        self.max_clusters = max_clusters
        self.criterion = criterion
        self.min_cell = min_cell
        self.max_rounds = max_rounds
        self.contacts = contacts
        self.participation = participation
        self.scale = scale
        self.missing = missing
        self.privacy = privacy
        self.learning_rate = learning_rate
        self.balance = balance
        self.random_state = random_state
        self.verbose = verbose
        self.cells_per_root = cells_per_root
        self.band = band
        self.prune = prune
        self.candidates = candidates
        self.drift = drift
        self.passes = passes
        self.cohort = cohort
        self.holders = holders
        self.max_cells = max_cells
        self.allow_one = allow_one
        self.granularity = granularity
        self.shape = shape
        self.seeded_noise = seeded_noise
        self.ordinal = ordinal

    def _method(self) -> tuple[AnyMethod, dict[str, Any]]:
        method, options, _ = resolve(self.get_params(deep=False))
        return method, options

    def _noise_is_seeded(self) -> bool:
        return self.seeded_noise

    def _before_run(self, sizes: list[int], options: dict[str, Any]) -> None:
        level = options.get("privacy") or resolve(self.get_params(deep=False))[2]
        if level == "exact":
            warn_user(PrivacyWarning(EXACT_WARNING))
        note = too_small(sizes, options.get("min_cell", 1), level)
        if note is not None:
            warn_user(SmallClientsWarning(note))

    def _doubts(self, sizes: list[int], clustering: Clustering) -> list[Warning]:
        doubts = super()._doubts(sizes, clustering)
        if self.privacy_ is not None:
            note = too_fine(sizes, clustering.k, self.min_cell, self.privacy_)
            if note is not None:
                doubts.append(SmallClientsWarning(note))
        return doubts
