# SPDX-License-Identifier: Apache-2.0
"""AFCL as a scikit-learn clusterer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from afcl._typing import Floats, Ints
from afcl.core.protocol import AnyMethod, Clustering
from afcl.estimators.federated import FederatedClusterer
from afcl.estimators.trust import ended
from afcl.estimators.user_warnings import warn_user
from afcl.exceptions import PrivacyWarning, SmallClientsWarning
from afcl.methods.presets import resolve
from afcl.privacy import EXACT_WARNING, too_fine, too_small
from afcl.runtime.schedule import Schedule

Preset: TypeAlias = Literal["default", "paper", "matlab"]
Missing: TypeAlias = Literal["error", "drop", "impute", "available"]
Scale: TypeAlias = Literal["minmax", "robust"] | tuple[ArrayLike, ArrayLike] | None


class AFCL(FederatedClusterer):
    """Asynchronous federated clustering with an unknown number of clusters.

    Every client condenses its rows to cells of at least `min_cell` rows; the server
    places seeds on the union, has the rows of all clients summed up in ever finer
    groups (where there are three clients or more), merges them along a path of k and
    answers with the level that summaries prefer. No row leaves a client.

    Parameters
    ----------
    preset : {"default", "paper", "matlab"}, default="default"
        `default` is what the project stands for; `paper` follows the published
        equations, `matlab` the published code. These two upload every row in a form
        that can be inverted, and warn.
    n_seeds : int or "auto", default="auto"
        Seeds to start from; `auto` follows the number of rows.
    max_clusters : int or "auto", default="auto"
        Largest number of clusters that may be the answer.
    criterion : str, default="auto"
        What chooses the number of clusters: `auto`, or one of the indices `silhouette`,
        `simplified`, `ch`, `db`, `bic` and `free_bic`.
    min_cell : int, default=5
        Smallest group of rows a client may describe.
    max_rounds : int, default=100
        Rounds after which a run ends in any case.
    contacts : int, default=3
        Messages a client is asked for, its first included, where cells of single
        clients are read (`summary`, `grouped`); with 1, no sums are asked for either.
    participation : None, float, array-like, "random" or Schedule, default=None
        None: everybody, always. A probability per round (one, or one per client);
        `random`: one U(0, 1) draw per client; or a schedule.
    scale : "minmax", "robust", (low, high) or None, default="minmax"
        How columns are brought to one scale, agreed before anything else: by the
        clients' extremes, by their quantiles (a few far values then count as just
        outside), by public bounds, or not at all.
    missing : {"error", "drop", "impute", "available"}, default="error"
        What to do with rows that hold NaN: refuse them; leave them out, labelled -1;
        fill what can be filled well; or let rows without gaps alone decide. The last
        two label every row that has a value.
    privacy : str or None, default=None
        None: for the default preset sums over all clients, if there are three and a
        common scale (`secure(plain)+summary`: a simulation masks nothing), otherwise
        `summary`; `exact` for the other two presets. Others are `grouped(5)`,
        `secure+grouped(5)`, `dp(8)` and `secure+dp(8)` (default preset; `dp` needs
        ``scale=(low, high)``); `affine` is the `paper` preset without its rows. See
        docs/privacy.md.
    learning_rate : float, default=0.001
        eta of the paper; presets `paper` and `matlab` only.
    balance : float, default=1.0
        xi of the paper; presets `paper` and `matlab` only.
    random_state : int, RandomState or None, default=None
        Seed of everything random but the noise of `dp`.
    verbose : bool, default=False
        Show a progress bar (lines, where nobody looks at a terminal); who has set up
        logging gets the lines from the logger `afcl` instead.
    cells_per_root : float, default=3
        Cells a client forms per square root of its rows, about; default preset only,
        as what follows.
    band : float, default=0.01
        Numbers of clusters whose silhouette is this close to the best are ties.
    prune : float, default=0.02
        Those this close to the best may be candidates.
    candidates : int, default=6
        At most so many numbers of clusters are scored by the clients.
    drift : float, default=0.01
        Share of the within-scatter that seeds may move before the path is built anew.
    passes : int, default=6
        Different sums a client is asked for where sums over clients are read; at
        least 5. It refuses more than one beyond.
    cohort : int or None, default=None
        Clients whose sums are read together; at least 3. None: everybody, up to 256.
    holders : int, default=3
        Clients that hold rows of a group, at least 2, before its sums over clients are
        read; of other groups who has `min_cell` rows of its own tells them.
    max_cells : int, default=1048576
        Cells the server remembers before it condenses them, at least 1024. See
        docs/how-to/server-memory.md.
    allow_one : bool, default=True
        Whether "no clusters", one for all rows, may be the answer.
    granularity : {"auto", "coarse", "fine"}, default="auto"
        Which of several believable k (`levels_`) is the answer: the best one, the
        smallest or the largest. See docs/how-to/should-i-trust-k.md.
    shape : {"convex", "connected", "auto"}, default="auto"
        What clusters may look like: round ones; whatever hangs together, such as rings
        and chains; or that where it is seen in what the clients said (which is not
        looked at with a `criterion` or `granularity` other than `auto`). See
        docs/how-to/shapes.md.
    seeded_noise : bool, default=False
        Whether the noise of `dp` follows from `random_state` too, so that a simulation
        can be repeated; then it guarantees nothing. By default it comes from the
        operating system, and two fits differ.
    ordinal : mapping from str to sequence of str, or None, default=None
        Columns of frames whose levels have an order, and these from the lowest on, such
        as ``{"severity": ["mild", "moderate", "severe"]}``. Ordered categoricals of
        pandas have theirs by themselves.
    dates : sequence of str, mapping from str to sequence of str, or None, default=None
        Columns of frames that are dates although they are texts, which count as days;
        or the parts that count instead, such as ``{"visit": ["month", "hour"]}``:
        month, weekday and hour go round, year and days are numbers. Columns whose type
        says that they are dates count as days by themselves.
    device : str, default="auto"
        `auto`: rows are worked on where they are, tensors on a GPU there. `cuda` (or
        `cuda:1`) moves tables in memory there once; needs ``pip install 'afcl[gpu]'``.
        See docs/how-to/gpu.md.

    Attributes
    ----------
    n_clusters_ : int
        The number of clusters found.
    cluster_centers_ : ndarray of shape (n_clusters_, n_features) or None
        In the units of the data; clusters are numbered by size, largest first.
    cluster_spreads_ : ndarray of shape (n_clusters_, n_features) or None
        How far the rows of a cluster spread around its centre in every column (root
        mean square, in the units of the data), as the server's cells tell it; None
        where the server hears none.
    cluster_profiles_ : sequence of ClusterProfile
        Why every cluster is one: spreads, the columns that set it apart, the nearest
        other cluster, silhouette, stability, a short rule, the sites that hold it, and
        all of it in words (`in_words`); `to_frame()` has it as a table. Empty where the
        server hears no cells. See docs/how-to/why-this-cluster.md.
    cluster_sizes_ : ndarray of shape (n_clusters_,)
        Rows in every cluster, or what they weigh.
    center_columns_ : ndarray of str
        What the columns of `cluster_centers_` are called; a category has one for each
        of its levels, unless these have an order.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of str
        What they are called, if they are.
    labels_ : ndarray of shape (n_samples,)
        Cluster of every training row, in the order of the input.
    client_labels_ : list of ndarray
        The same, one array per client.
    scores_ : dict of str to float or None
        Indices of the answer, as the federation knows them.
    path_ : KPath
        Every k that was considered.
    structure_ : dict or None
        Whether there are clusters: `verdict` is "clusters", "none" or "unclear", `gain`
        how much better they explain the rows than a single cloud (nats a row). None,
        as what follows is None or empty, where the method does not judge itself.
    k_confidence_ : float or None
        How often `n_clusters_` comes out when what the clients said is resampled.
        Of a k that `granularity` asked for: how often all of its clusters come back.
    k_confidences_ : dict of int to float
        The same of every k that came out.
    cluster_stability_ : ndarray of shape (n_clusters_,)
        How much of every cluster comes back on average, 0 to 1.
    levels_ : ndarray of int
        Every k that can be believed, the answer's own among them.
    shape_ : dict or None
        What the clusters look like: `name` is "convex" or "connected", `reason` says
        why. None where the method knows no shapes.
    cells_ : dict or None
        Of connected clusters, the cells they consist of: `means`, in the units of the
        data, and `rows`. None of convex ones, as are the next two.
    cell_labels_ : ndarray of shape (n_cells,) or None
        The cluster of every cell.
    cell_sparse_ : ndarray of bool of shape (n_cells,) or None
        Which cells are much sparser than their cluster: rows there may be outliers.
    n_rounds_ : int
        Rounds the run took.
    upload_bytes_ : int
        Bytes all clients sent up.
    privacy_ : str or None
        The privacy level the run had, also where none was named; None for a method
        that knows no levels.
    trace_ : Trace
        Everything that happened.
    answer_ : int
        Number of the answer: 1 after a fit, one more after every :meth:`update` and
        :meth:`forget`.
    cluster_names_ : list of str
        What the clusters are called: a name stays with its cluster from answer to
        answer. In the first one `c0` is label 0.
    changes_ : list of Change
        What is not as it was in the answer before: clusters that were born, split,
        merged, died or have drifted.
    history_ : list of NumberedAnswer
        All answers so far.

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

    cluster_centers_: Floats
    labels_: Ints

    def __init__(
        self,
        preset: Preset = "default",
        n_seeds: int | Literal["auto"] = "auto",
        max_clusters: int | Literal["auto"] = "auto",
        criterion: str = "auto",
        min_cell: int = 5,
        max_rounds: int = 100,
        contacts: int = 3,
        participation: Schedule | ArrayLike | Literal["random"] | None = None,
        scale: Scale = "minmax",
        missing: Missing = "error",
        privacy: str | None = None,
        learning_rate: float = 1e-3,
        balance: float = 1.0,
        random_state: int | np.random.RandomState | None = None,
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
        granularity: Literal["auto", "coarse", "fine"] = "auto",
        shape: Literal["convex", "connected", "auto"] = "auto",
        seeded_noise: bool = False,
        ordinal: Mapping[str, Sequence[str]] | None = None,
        dates: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        device: str = "auto",
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
        self.dates = dates
        self.device = device

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
        if not doubts and self.max_clusters == "auto":
            doubts += ended(clustering)
        if self.privacy_ is not None:
            note = too_fine(sizes, clustering.k, self.min_cell, self.privacy_)
            if note is not None:
                doubts.append(SmallClientsWarning(note))
        return doubts
