# SPDX-License-Identifier: Apache-2.0
"""The skeleton rivals share: say hello, think at the end of a round, answer.

A rival fills in what is its own: what a client says first, how the server starts, what
it broadcasts, what a client answers, how answers are combined. The skeleton keeps the
books: who is registered, what has arrived in this round, what each client said last.

The server's own view of the world is the *model*, a frozen dataclass of the rival's
choosing (None until :meth:`Rival.start`). One-shot rivals put everything into the
hello or into one answer per client.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from afcl._typing import AnyArray, ClientId, Floats
from afcl.core.messages import (
    Broadcast,
    Hello,
    Left,
    Update,
    arrays_in,
    check_answer,
    payload,
    refuse_unless,
)
from afcl.core.messages import is_table as is_table  # for rivals, beside `expect`
from afcl.core.params import from_options
from afcl.core.protocol import (
    Clustering,
    Diagnostics,
    Message,
    Method,
    PathLevel,
    Scores,
)
from afcl.exceptions import InputError


@payload
@dataclass(frozen=True, slots=True)
class Nothing:
    """An empty payload: reveals nothing but that the client is there."""


@dataclass(frozen=True, slots=True)
class KnownK:
    """Parameters of a rival that must be told the number of clusters."""

    n_clusters: int | None = None

    def __post_init__(self) -> None:
        if self.n_clusters is None:
            raise InputError(
                "this method must be told the number of clusters: give n_clusters "
                "(--n-clusters), "
                "or ask it through 'any-k:' before its name"
            )
        if not (isinstance(self.n_clusters, Integral) and int(self.n_clusters) >= 1):
            wrong = repr(self.n_clusters)
            raise InputError(
                f"n_clusters must be a whole number, at least 1, not {wrong}"
            )

    @property
    def k(self) -> int:
        """The number of clusters asked for."""
        assert self.n_clusters is not None
        return self.n_clusters


@dataclass(frozen=True, slots=True)
class RivalState:
    """What the server of a rival knows.

    Attributes
    ----------
    hellos, rows
        Payload of every client's hello, and its number of rows.
    pending
        Answers of the round so far, in order of arrival.
    latest
        The newest answer of every client.
    answers
        Answers each client has given.
    version
        Grows with every model that clients have not seen yet.
    model
        The rival's own; None before :meth:`Rival.start`.
    finished
        Whether the rival expects nothing more.
    joined
        Whether somebody said hello since the model was started.
    """

    params: Any
    seed: int
    n_features: int = -1
    hellos: dict[ClientId, Any] = field(default_factory=dict)
    rows: dict[ClientId, int] = field(default_factory=dict)
    left: frozenset[ClientId] = frozenset()
    pending: tuple[Update, ...] = ()
    latest: dict[ClientId, Update] = field(default_factory=dict)
    answers: dict[ClientId, int] = field(default_factory=dict)
    version: int = 0
    model: Any = None
    finished: bool = False
    joined: bool = False

    def active(self) -> list[ClientId]:
        """Clients that said hello and have not left."""
        return [client for client in sorted(self.rows) if client not in self.left]

    def everybody_answered(self, times: int = 1) -> bool:
        """Whether every active client has answered at least so often."""
        return all(self.answers.get(client, 0) >= times for client in self.active())


class Rival(Method[Any, RivalState]):
    """A method behind the common protocol; subclasses fill in the abstract parts."""

    needs_k = True
    Params: ClassVar[type[Any]] = KnownK

    # ------------------------------------------------ what a rival fills in

    @abstractmethod
    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Any:
        """Return the payload of a client's hello."""

    @abstractmethod
    def start(self, state: RivalState) -> Any:
        """Return the first model, from the hellos so far."""

    @abstractmethod
    def message(self, state: RivalState) -> Any:
        """Return the payload of the broadcast."""

    @abstractmethod
    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[Any, Any]:
        """Return a client's answer and its new memory (a payload or None)."""

    @abstractmethod
    def combine(self, state: RivalState) -> tuple[Any, bool]:
        """Return the model after this round's answers, and whether to stop."""

    @abstractmethod
    def cluster(self, state: RivalState) -> Clustering:
        """Return the answer of the model."""

    @abstractmethod
    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Refuse a hello payload that cannot be; return its width (-1: it has none)."""

    @abstractmethod
    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Refuse an answer that cannot be."""

    def on_join(self, state: RivalState) -> Any:
        """Return the model after somebody joined late; by default it stays."""
        return state.model

    def wanted(self, state: RivalState) -> frozenset[ClientId] | None:
        """Return whose answer would help; None: anybody's."""
        return frozenset() if state.finished else frozenset(state.active())

    def objective(self, state: RivalState) -> float | None:
        """Return the number the rival minimises or watches, if there is one."""
        return None

    # ------------------------------------------------ the protocol

    def parameters(self, **options: Any) -> Any:
        """Validate options."""
        return from_options(self.Params, self.name, options)

    def hello(self, X: Floats, params: Any, rng: np.random.Generator) -> Hello:
        """Return a client's first message."""
        return Hello(X.shape[0], self.first(X, params, rng))

    def init(self, hellos: Sequence[Hello], params: Any, seed: int) -> RivalState:
        """Absorb the hellos in order."""
        state = RivalState(params, seed)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def absorb(
        self, state: RivalState, message: Message
    ) -> tuple[RivalState, Diagnostics]:
        """Check and store one message."""
        if isinstance(message, Left):
            return replace(state, left=state.left | {message.client}), {
                "accepted": True
            }
        _check_finite(message.payload)
        if isinstance(message, Hello):
            return self._absorb_hello(state, message)
        return self._absorb_update(state, message)

    def _absorb_hello(
        self, state: RivalState, hello: Hello
    ) -> tuple[RivalState, Diagnostics]:
        refuse_unless(hello.n_rows >= 1, "a client must register at least one row")
        width = self.check_hello(state, hello.payload, hello.n_rows)
        refuse_unless(
            state.n_features < 0 or width < 0 or width == state.n_features,
            f"expected {state.n_features} features, got {width}",
        )
        return replace(
            state,
            n_features=max(width, state.n_features),
            hellos={**state.hellos, hello.client: hello.payload},
            rows={**state.rows, hello.client: hello.n_rows},
            left=state.left - {hello.client},
            joined=True,
        ), {"accepted": True}

    def _absorb_update(
        self, state: RivalState, update: Update
    ) -> tuple[RivalState, Diagnostics]:
        client = update.client
        check_answer(update, state.rows, state.version)
        refuse_unless(state.model is not None, "nothing was asked yet")
        self.check_update(state, update.payload, state.rows[client])
        return replace(
            state,
            pending=(*state.pending, update),
            latest={**state.latest, client: update},
            answers={**state.answers, client: state.answers.get(client, 0) + 1},
        ), {"accepted": True, "late": state.version - update.version}

    def end_round(self, state: RivalState) -> RivalState:
        """Combine the round's answers; a round without any changes nothing."""
        if not state.pending or state.finished:
            return replace(state, pending=()) if state.pending else state
        model, finished = self.combine(state)
        return replace(
            state,
            model=model,
            finished=finished,
            pending=(),
            version=state.version + 1,
        )

    def prepare(self, state: RivalState) -> RivalState:
        """Start the model once there are hellos; let late joiners in."""
        if not state.joined:
            return state
        if state.model is None:
            return replace(state, model=self.start(state), joined=False)
        return replace(
            state,
            model=self.on_join(state),
            joined=False,
            finished=False,
            version=state.version + 1,
        )

    def broadcast(self, state: RivalState) -> Broadcast:
        """Return what a participating client gets."""
        return Broadcast(state.version, self.message(state), self.wanted(state))

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Return a client's answer and its new memory."""
        reply, memory = self.step(broadcast.payload, X, memory, params, rng)
        return Update(reply), memory

    def done(self, state: RivalState) -> bool:
        """Whether the rival expects nothing more."""
        return state.model is not None and not state.joined and state.finished

    def result(self, state: RivalState) -> Clustering:
        """Return the answer so far."""
        return self.cluster(state)

    def progress(self, state: RivalState) -> Diagnostics:
        """Return numbers worth showing."""
        clustering = self.cluster(state)
        return {
            "k": clustering.k,
            "objective": self.objective(state),
            "version": state.version,
            "movement": float(getattr(state.model, "movement", 0.0)),
            "seeds": clustering.centers,
        }


def _check_finite(reply: Any) -> None:
    for array in arrays_in(reply):
        refuse_unless(
            bool(np.isfinite(array).all()),
            "a message holds numbers that are not finite",
        )


def check_at_least(params: Any, low: int, *names: str) -> None:
    """Refuse parameters below `low`; None stands for a default."""
    for name in names:
        value = getattr(params, name)
        if value is not None and value < low:
            raise InputError(f"{name} must be at least {low}, not {value}")


def expect(condition: bool, what: str) -> None:
    """Refuse a message that lacks `what`."""
    refuse_unless(condition, f"expected {what}")


def simple_clustering(
    centers: Floats, sizes: AnyArray | None = None, scores: Scores | None = None
) -> Clustering:
    """Return a clustering of these centres, largest first where sizes are known."""
    k = centers.shape[0]
    known = np.zeros(k) if sizes is None else np.asarray(sizes, dtype=np.float64)
    order = np.argsort(-known, kind="stable")
    level = PathLevel(k, centers[order], known[order], scores or {})
    return Clustering(level.centers, level.sizes, level.scores, (level,))
