# SPDX-License-Identifier: Apache-2.0
"""The protocol every method obeys, AFCL and rivals alike.

Pure functions over frozen dataclasses: no input or output, no clock, no thread, no
log. Drivers (simulator, estimator, network) call them and contain no algorithm.

A driver's tick is: ``prepare``, ask ``done``, send ``broadcast`` to whoever is there
and wanted, ``absorb`` what has arrived, ``end_round``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Broadcast, Cells, Hello, Left, Places, Update
from afcl.kernels import assign

if TYPE_CHECKING:
    from afcl.core.connected import Connected

Message: TypeAlias = Hello | Update | Left
Scores: TypeAlias = dict[str, float | None]
Diagnostics: TypeAlias = dict[str, Any]

ParamsT = TypeVar("ParamsT")
StateT = TypeVar("StateT")
KeptT = TypeVar("KeptT")


class Keep(Protocol):
    """Keeps what a client says of its rows, so that it is made once and never again.

    Called with a name for what is said, how to make it (a payload), and what it costs a
    row's privacy (mu of Gaussian DP; 0: nothing that can be added up).
    """

    def __call__(
        self, what: str, make: Callable[[], KeptT], cost: float = 0.0
    ) -> KeptT:
        """Return what was said before, or make it; raises to refuse."""
        ...


def keep_nothing(what: str, make: Callable[[], KeptT], cost: float = 0.0) -> KeptT:
    """Make it: in a simulation nobody is there to say it to twice."""
    return make()


@dataclass(frozen=True, slots=True)
class PathLevel:
    """One k that was considered, from the first build to the answer of a run.

    What crosses the wire of a level has classes of its own, because each reveals
    something else: :class:`messages.Level` (down: centres, spreads, sizes, no score),
    :class:`messages.LevelReply` (up: a client's cells around it) and
    :class:`terms.AnswerLevel` (the end: scores as one array). `KPath` shows users all
    levels as columns, in the units of their data.

    Attributes
    ----------
    k, centers
        Number of clusters and B, (k, d).
    sizes
        O, rows per cluster as the server sees them.
    scores
        By index name; None where an index is not defined.
    scatters
        Z per cluster, while the default preset works on the level; empty elsewhere.
    revision
        How often the clients' replies have polished it.
    valleys
        Rows per cluster in three slabs on the way to its nearest centre: the middle,
        the own end, the other end (see :func:`afcl.kernels.valleys`), as the clients
        counted them; of shape (0, 3) where they are not known.
    searched
        Whether it is not of the path, but was searched for (:mod:`core.search`).
    uncounted
        As `valleys`, of rows that nobody counted, by their cells; of shape (0, 3) where
        there are none.
    split
        Whether it took the place of the path's own (:mod:`core.climb`).
    """

    k: int
    centers: Floats
    sizes: Floats
    scores: Scores
    scatters: Floats = field(default_factory=lambda: np.empty(0))
    revision: int = 0
    valleys: Floats = field(default_factory=lambda: np.empty((0, 3)))
    searched: bool = False
    uncounted: Floats = field(default_factory=lambda: np.empty((0, 3)))
    split: bool = False

    @property
    def spreads(self) -> Floats:
        """V = Z/O."""
        return self.scatters / self.sizes


@dataclass(frozen=True, slots=True)
class Merge:
    """One step of the merge tree: nodes `left` and `right` become a new node.

    Leaves are the seeds 0..k0-1; the i-th merge makes node k0 + i.
    """

    left: int
    right: int
    cost: float
    size: float


@dataclass(frozen=True, slots=True)
class Trust:
    """How far an answer can be believed, judged by what the server has heard.

    Attributes
    ----------
    verdict
        `clusters`; `none` (nothing parts the rows); or `unclear` (what was heard mixes
        rows too much to tell).
    gain
        Nats a row by which the best clustering explains the rows better than a single
        cloud does; None: not known.
    confidence
        How often the answer's k comes out when what was heard is resampled.
        Of a k that `granularity` asked for: how often all of its clusters come back.
    shares
        The same of every k that came out, as (k, share), in increasing k.
    stabilities
        For every cluster of the answer: how much of it comes back on average, 0 to 1.
    levels
        Every k whose clusters come back, the answer's own among them; in increasing k.
    """

    verdict: str
    gain: float | None
    confidence: float
    shares: tuple[tuple[int, float], ...] = ()
    stabilities: tuple[float, ...] = ()
    levels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clustering:
    """The answer of a method, in the agreed (scaled) units.

    Attributes
    ----------
    centers
        (k', d), or None where the method has no centres.
    sizes
        Rows per cluster as the server knows them, largest first.
    scores
        By index name; None where an index is not defined.
    path
        Every k that was considered, in increasing k.
    seeds, merges
        The seeds the path starts from and the tree that joins them.
    extra
        What :meth:`Method.label` needs beyond the centres (arrays and numbers).
    note
        What a reader should know of how the answer came about, a sentence or nothing.
    trust
        How far it can be believed, where a method says so.
    cells
        What the server heard, condensed to a few hundred cells, where it hears cells.
        They stay with the server: no message holds them.
    connected
        Where clusters need not be round: the cells by cluster, and their tree; `path`
        and `merges` are of it, and `centers` are the means of all rows of a cluster.
        It stays with the server, too.
    places
        What rows are labelled by then, here and at the sites.
    """

    centers: Floats | None
    sizes: Floats
    scores: Scores
    path: tuple[PathLevel, ...] = ()
    seeds: Floats | None = None
    merges: tuple[Merge, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    trust: Trust | None = None
    cells: Cells | None = None
    connected: Connected | None = None
    places: Places | None = None

    @property
    def k(self) -> int:
        """Number of clusters."""
        return int(self.sizes.shape[0])

    @property
    def landmarks(self) -> Floats | None:
        """What a row is labelled by the nearest of: places, or centres."""
        return self.centers if self.places is None else self.places.means


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a method's privacy level asks of the agreement on scales.

    Attributes
    ----------
    group
        Extremes are told of the means of groups of so many rows (1: of rows).
    bounds
        Whether extremes may not be told at all: the bounds must be public.
    box
        Whether rows must be brought to a common scale.
    clients
        Fewest clients a run can do with.
    """

    group: int = 1
    bounds: bool = False
    box: bool = False
    clients: int = 1


class Disclosure(NamedTuple):
    """The most that clients say in a run: its privacy level, its smallest cell.

    "" and None of a method that knows no levels, or sends no cells. `once` says that
    all of it follows from what a client keeps (:class:`Keep`), however often it speaks;
    `steps` is the most different broadcasts it answers (None: as many as come);
    `holders` are the clients that hold rows of a group, at least, before its sums over
    clients are read (None: there are no such sums). `seeds`, `levels` and `passes` are
    the most seeds and levels that a broadcast may have, and the most different sums
    over clients (None: there are none, or as many as follow from the rows).
    """

    level: str = ""
    min_cell: int | None = None
    once: bool = False
    steps: int | None = None
    holders: int | None = None
    seeds: int | None = None
    levels: int | None = None
    passes: int | None = None


class Method(Protocol[ParamsT, StateT]):
    """A federated clustering method.

    `hello`, `client_step` and `label` run at a client and see its rows; everything else
    runs at the server and sees messages only. A method is a subclass: what has a
    default here need not be written.

    Attributes
    ----------
    name
        What the method is called by.
    needs_k
        Whether it must be told the number of clusters.
    in_parts
        Whether clients are given :class:`~afcl.core.rows.Rows`, to be read part by
        part, instead of a table, and label them so.
    """

    name: str
    needs_k: bool
    in_parts: bool = False

    def parameters(self, **options: Any) -> ParamsT:
        """Validate keyword options and return frozen parameters."""
        ...

    def told(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options that clients are told; others concern the server alone."""
        return options

    def settle(self, params: ParamsT, n_rows: int) -> ParamsT:
        """Fix what depends on the number of rows, once that is agreed."""
        return params

    def requirements(self, params: ParamsT) -> Requirements:
        """Return what the privacy level asks of the agreement."""
        return Requirements()

    def view(
        self,
        X: Any,
        params: ParamsT,
        rng: np.random.Generator,
        keep: Keep = keep_nothing,
    ) -> Any:
        """Return what a client works on instead of its rows, formed once and for all.

        X is the table, or (for a method that works `in_parts`) the rows to be read.
        `rng` draws from the client's own secret, never from the run's seed; `keep`
        remembers beyond the run. What is returned takes the place of X in `hello` and
        `client_step`.
        """
        return X

    def disclosure(self, params: ParamsT) -> Disclosure:
        """Return the most that clients say, which a site may have forbidden."""
        return Disclosure()

    def hello(self, X: Floats, params: ParamsT, rng: np.random.Generator) -> Hello:
        """Return a client's first message."""
        ...

    def init(self, hellos: Sequence[Hello], params: ParamsT, seed: int) -> StateT:
        """Return the server's state after these hellos, in order."""
        ...

    def agreed(self, state: StateT, n_features: int, bounded: bool) -> StateT:
        """Note the agreement before any message: columns, whether there is a box."""
        return state

    def announced(
        self, state: StateT, client: ClientId, low: Floats, high: Floats
    ) -> StateT:
        """Note the extremes (in agreed units) that a client told before its hello."""
        return state

    def absorb(self, state: StateT, message: Message) -> tuple[StateT, Diagnostics]:
        """Check and store one message; cheap. Raises RejectedMessage if it is bad."""
        ...

    def end_round(self, state: StateT) -> StateT:
        """Act, for methods that think in rounds."""
        return state

    def silent_round(self, state: StateT) -> StateT:
        """Act on a simulated round to which nobody came, if that means anything.

        Only where rounds are drawn: a live run is never silent, somebody is asked.
        """
        return state

    def waits_for(self, state: StateT) -> frozenset[ClientId]:
        """Return the clients without whose answer the method cannot go on.

        When nothing has come for as long as a live run's patience lasts, these count
        as gone, and the run goes on; if there are none, it ends.
        """
        return frozenset()

    def prepare(self, state: StateT) -> StateT:
        """Do the heavy work that was put off; nothing new absorbed, nothing done."""
        return state

    def broadcast(self, state: StateT) -> Broadcast:
        """Return what a participating client gets now."""
        ...

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: ParamsT,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Return a client's answer, and what it wants to remember for the next one."""
        ...

    def done(self, state: StateT) -> bool:
        """Whether the method itself expects nothing more."""
        ...

    def result(self, state: StateT) -> Clustering:
        """Return the answer so far; defined from the first hello on."""
        ...

    def progress(self, state: StateT) -> Diagnostics:
        """Return numbers worth showing: k so far, objective, seeds, their movement."""
        ...

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Label rows: a client's own (`client`, with its memory) or new ones (None).

        By default a row's label is that of the nearest centre.
        """
        assert clustering.centers is not None
        return assign(X, clustering.centers)[0]


AnyMethod: TypeAlias = Method[Any, Any]


# Who draws, as the first number of a generator's spawn key.
#: The server.
SERVER = 0
#: A client.
CLIENT = 1
#: The simulated schedule.
SCHEDULE = 2
#: What stands for a client's secret in a simulation.
SECRET = 3


def server_rng(seed: int, purpose: int, build: int) -> np.random.Generator:
    """Return the server's generator for one purpose and build."""
    return _generator(seed, SERVER, purpose, build)


def client_rng(seed: int, client: ClientId, contact: int) -> np.random.Generator:
    """Return a client's generator for one contact."""
    return _generator(seed, CLIENT, client, contact)


def simulated_secret(seed: int, client: ClientId) -> bytes:
    """Return what stands for a client's secret where everything must be repeatable."""
    return _generator(seed, SECRET, client).bytes(32)


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def secret_rng(secret: bytes, purpose: str) -> np.random.Generator:
    """Return the generator of a client's secret draws for one purpose."""
    parts = (secret, purpose.encode())
    words = [int.from_bytes(part, "little") for part in parts]
    lengths = [len(part) for part in parts]
    return np.random.default_rng(np.random.SeedSequence([*lengths, *words]))
