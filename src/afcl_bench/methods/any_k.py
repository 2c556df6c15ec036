# SPDX-License-Identifier: Apache-2.0
"""any-k: run a method that must be told k for every k, and let the clients judge.

All k from `min_clusters` to `max_clusters` run side by side in one protocol run; then
the clients score every answer on their own rows, and the largest federated simplified
silhouette (``index="simplified"``) or the smallest Davies-Bouldin index (``"db"``)
chooses. The sums give the indices of the pooled rows exactly.

Stallmann and Wilbik, "On a framework for federated cluster analysis", Applied Sciences
2022 (federated Davies-Bouldin); Garst and Reinders, "Federated k-means clustering",
ADMA 2024 (federated simplified silhouette). What is ours:

* A row belongs to its nearest centre when an answer is scored. For inner methods
  without centres the clients first send counts and sums of their rows, labelled by
  the inner method, and are then asked about the means with these labels.
* Inner methods that wait for clients that never come must not keep the others from
  judging: after `sweep_rounds` rounds what there is is judged as it is, and again every
  `sweep_rounds` rounds until every k is done, when a last evaluation follows. Whoever
  answers counts; an evaluation replaces the one before when at least as many (or all)
  clients have answered it. Nobody at all: the smallest k stands.
* A late joiner takes part in all k, and the answers are judged anew.

Every k uses the same random numbers, so that one k alone gives the inner method's own
answer, bit for bit. An option that is not the wrapper's own goes to the inner method.

Uploaded: what the inner method uploads for every k that is not done, then per k and
cluster a count and a sum of distances, and one silhouette.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Broadcast, Hello, Update, refuse_unless
from afcl.core.protocol import (
    AnyMethod,
    Clustering,
    Diagnostics,
    Message,
    Method,
    PathLevel,
    Scores,
)
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl_bench.methods.any_k_state import (
    INDICES,
    AnyKParams,
    AnyKState,
    Asked,
    Trial,
    choice,
    concluded,
    counted,
    judged,
)
from afcl_bench.methods.sweep import (
    SweepHello,
    SweepMemory,
    SweepPlan,
    SweepReply,
    answer_question,
    check_hello,
)

PREFIX = "any-k:"
UNJUDGED: Scores = dict.fromkeys(INDICES)


class AnyK(Method[AnyKParams, AnyKState]):
    """A method that needs k, behind the protocol of one that does not."""

    needs_k = False

    def __init__(self, inner: AnyMethod) -> None:
        self.inner = inner
        self.name = f"{PREFIX}{inner.name}"

    # ------------------------------------------------ parameters

    def parameters(self, **options: Any) -> AnyKParams:
        """Validate own options, and the rest as the inner method's, for every k."""
        if "n_clusters" in options:
            raise InputError(
                f"{self.name} finds the number of clusters: give max_clusters instead "
                "of n_clusters"
            )
        known = {field.name for field in fields(AnyKParams)} - {"inner"}
        own = AnyKParams(**{name: options[name] for name in known & set(options)})
        rest = {name: options[name] for name in options if name not in known}
        return replace(
            own,
            inner=tuple(
                self.inner.parameters(n_clusters=k, **rest)
                for k in range(own.min_clusters, own.max_clusters + 1)
            ),
        )

    def settle(self, params: AnyKParams, n_rows: int) -> AnyKParams:
        """Settle every k."""
        settled = (self.inner.settle(inner, n_rows) for inner in params.inner)
        return replace(params, inner=tuple(settled))

    # ------------------------------------------------ clients

    def hello(self, X: Floats, params: AnyKParams, rng: np.random.Generator) -> Hello:
        """Say the inner hello of every k."""
        parts = tuple(
            self.inner.hello(X, inner, copy.deepcopy(rng)).payload
            for inner in params.inner
        )
        return Hello(X.shape[0], SweepHello(X.shape[1], parts))

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: AnyKParams,
        rng: np.random.Generator,
    ) -> tuple[Update, SweepMemory]:
        """Take the inner step of every k that is not done; answer the question."""
        plan: SweepPlan = broadcast.payload
        parts: list[Any] = [None] * len(params.inner)
        kept: list[Any] = list(memory.parts) if memory else parts.copy()
        for i, part in enumerate(plan.parts):
            if part is not None:
                update, kept[i] = self.inner.client_step(
                    Broadcast(int(plan.versions[i]), part),
                    X,
                    kept[i],
                    params.inner[i],
                    copy.deepcopy(rng),
                )
                parts[i] = update.payload
        census = (memory.number, memory.labels) if memory else (-1, ())
        remembered = SweepMemory(tuple(kept), *census)
        number, answer, remembered = answer_question(
            plan.question, X, remembered, self.inner.label
        )
        return Update(SweepReply(tuple(parts), number, answer)), remembered

    # ------------------------------------------------ absorbing

    def init(self, hellos: Sequence[Hello], params: AnyKParams, seed: int) -> AnyKState:
        """Absorb the hellos in order."""
        inner = tuple(self.inner.init((), each, seed) for each in params.inner)
        state = AnyKState(params, inner)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def absorb(
        self, state: AnyKState, message: Message
    ) -> tuple[AnyKState, Diagnostics]:
        """Check and store one message, in every k it concerns."""
        if isinstance(message, Hello):
            return self._absorb_hello(state, message), {"accepted": True}
        if isinstance(message, Update):
            late = len(state.asked) - 1 - message.version
            return self._absorb_update(state, message), {"accepted": True, "late": late}
        inner = tuple(self.inner.absorb(each, message)[0] for each in state.inner)
        left = state.left | {message.client}
        return replace(state, inner=inner, left=left), {"accepted": True}

    def _absorb_hello(self, state: AnyKState, hello: Hello) -> AnyKState:
        survey = hello.payload
        check_hello(survey, len(state.inner), state.n_features)
        inner = tuple(
            self.inner.absorb(each, replace(hello, payload=part))[0]
            for each, part in zip(state.inner, survey.parts, strict=True)
        )
        return replace(
            state,
            inner=inner,
            n_features=survey.n_features,
            rows={**state.rows, hello.client: hello.n_rows},
            left=state.left - {hello.client},
            ticks=0,
            trial=None,
        )

    def _absorb_update(self, state: AnyKState, update: Update) -> AnyKState:
        client, reply = update.client, update.payload
        refuse_unless(client in state.rows, f"client {client} has not said hello")
        refuse_unless(
            0 <= update.version < len(state.asked),
            f"version {update.version} was never sent",
        )
        asked = state.asked[update.version]
        refuse_unless(
            isinstance(reply, SweepReply)
            and isinstance(reply.parts, tuple)
            and len(reply.parts) == len(state.inner),
            f"expected {len(state.inner)} answers, one for every k",
        )
        inner = list(state.inner)
        for i, part in enumerate(reply.parts):
            if asked.of(i, client) and state.asked[-1].versions[i] >= 0:
                step = replace(update, payload=part, version=asked.versions[i])
                inner[i], _ = self.inner.absorb(inner[i], step)
        return replace(state, inner=tuple(inner), trial=judged(state, client, reply))

    # ------------------------------------------------ thinking

    def end_round(self, state: AnyKState) -> AnyKState:
        """Let every k act that was not done; go on with the evaluation."""
        if not state.asked:
            return state
        inner = tuple(
            self.inner.end_round(each) if version >= 0 else each
            for each, version in zip(state.inner, state.asked[-1].versions, strict=True)
        )
        return self.prepare(replace(state, inner=inner, ticks=state.ticks + 1))

    def prepare(self, state: AnyKState) -> AnyKState:
        """Prepare every k; open, advance or close an evaluation."""
        if not state.rows:
            return state
        inner = tuple(self.inner.prepare(each) for each in state.inner)
        state = self._opened(replace(state, inner=inner))
        state = concluded(counted(state))
        asked = self._asked(state)
        if state.asked and state.asked[-1] == asked:
            return state
        return replace(state, asked=(*state.asked, asked))

    def _opened(self, state: AnyKState) -> AnyKState:
        """Open an evaluation when every k is done, or it is time to look."""
        final = all(self.inner.done(each) for each in state.inner)
        trial = state.trial
        since = state.ticks - (0 if trial is None else trial.opened)
        if not final and since < state.params.sweep_rounds:
            return state
        if final and trial is not None and trial.final:
            return state
        number = state.trials
        answers = tuple(self.inner.result(each) for each in state.inner)
        fresh = Trial(number, state.ticks, final, answers)
        return replace(state, trial=fresh, trials=number + 1)

    def _asked(self, state: AnyKState) -> Asked:
        """Return what the broadcast of this state asks."""
        versions, wanted = [], []
        for each in state.inner:
            done = self.inner.done(each)
            sent = None if done else self.inner.broadcast(each)
            versions.append(-1 if sent is None else sent.version)
            wanted.append(frozenset() if sent is None else sent.wanted)
        return Asked(tuple(versions), tuple(wanted))

    def broadcast(self, state: AnyKState) -> Broadcast:
        """Send the inner broadcasts of every k that is not done, and the question."""
        asked = state.asked[-1]
        parts = tuple(
            self.inner.broadcast(each).payload if version >= 0 else None
            for each, version in zip(state.inner, asked.versions, strict=True)
        )
        waiting = state.waiting()
        question = state.trial.question() if state.trial and waiting else None
        wanted: frozenset[ClientId] | None = waiting
        for each in asked.wanted:
            wanted = None if wanted is None or each is None else wanted | each
        versions = np.array(asked.versions, dtype=np.int64)
        return Broadcast(
            len(state.asked) - 1, SweepPlan(versions, parts, question), wanted
        )

    def done(self, state: AnyKState) -> bool:
        """Whether every k is done and everybody who is here has judged it."""
        return (
            state.trial is not None
            and state.trial.final
            and (state.trial.centers is not None or not state.active())
            and not state.waiting()
            and all(self.inner.done(each) for each in state.inner)
        )

    # ------------------------------------------------ answering

    def result(self, state: AnyKState) -> Clustering:
        """Return the best k's answer; the path holds every k, if there are centres."""
        at = choice(state)
        scores = [UNJUDGED] * len(state.inner)
        if state.verdict is not None:
            scores = list(state.verdict.scores)
        chosen = self._result(state, at)
        levels: dict[int, PathLevel] = {}
        if chosen.centers is not None:
            for i in (*range(at), *range(at + 1, len(state.inner)), at):
                answer = self._result(state, i)
                if answer.centers is not None:
                    levels[answer.k] = PathLevel(
                        answer.k, answer.centers, answer.sizes, scores[i]
                    )
        return replace(
            chosen,
            scores={**chosen.scores, **scores[at]},
            path=tuple(levels[k] for k in sorted(levels)),
            extra={**chosen.extra, "any_k": at},
        )

    def _result(self, state: AnyKState, position: int) -> Clustering:
        if state.trial is not None and state.trial.final:
            return state.trial.clusterings[position]
        return self.inner.result(state.inner[position])

    def progress(self, state: AnyKState) -> Diagnostics:
        """Return the numbers of the best k so far."""
        found = self.inner.progress(state.inner[choice(state)])
        return {**found, "version": len(state.asked) - 1}

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Label as the inner method does, with its memory of the chosen k."""
        extra = dict(clustering.extra)
        at = extra.pop("any_k")
        own = None if memory is None else memory.parts[at]
        return self.inner.label(replace(clustering, extra=extra), X, own, client)


def any_k(name: str) -> AnyK:
    """Return the wrapper of the method of this name, which must need k."""
    inner = get_method(name)
    if not inner.needs_k:
        raise InputError(
            f"{name} finds the number of clusters by itself: ask for it without "
            f"{PREFIX!r}"
        )
    return AnyK(inner)
