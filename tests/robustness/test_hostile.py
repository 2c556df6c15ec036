# SPDX-License-Identifier: Apache-2.0
"""Two hostile clients among ten do no more harm than if they had stayed away."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_mixture, make_sd1
from afcl.methods import get_method
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.schedule import Schedule
from afcl.runtime.site import Site
from afcl.runtime.spec import Spec
from hostile import AWAY, CLIENTS, COPY, ECHO, KINDS, Traitor, federate, score, split

DETECTABLE = sorted(set(KINDS) - {ECHO})


def overlapping(seed):
    """Three clusters that touch, 300 rows in 4 columns."""
    return make_mixture(
        3, 4, separation=1.0, imbalance=2, random_state=seed, n_samples=300
    )[0]


TABLES = {"SD1": lambda seed: make_sd1(seed)[0], "overlapping": overlapping}


@pytest.fixture(scope="module", params=sorted(TABLES))
def federation(request, seed):
    """Ten tables, two hostile clients, and the score without these."""
    X = TABLES[request.param](seed)
    tables = split(X, kmeans_split(X, CLIENTS, seed))
    bad = tuple(np.random.default_rng(seed).choice(CLIENTS, 2, replace=False).tolist())
    return tables, bad, score(tables, bad, AWAY, seed)


@pytest.mark.parametrize("kind", DETECTABLE)
def test_hostile_clients_are_as_good_as_away(federation, kind, seed):
    tables, bad, alone = federation
    found = score(tables, bad, kind, seed)

    assert abs(found.silhouette - alone.silhouette) <= 0.01
    assert found.k == alone.k
    assert found.rejected >= len(bad)
    assert alone.rejected == 0


@pytest.mark.parametrize("kind", DETECTABLE)
def test_only_the_hostile_are_refused_and_they_are_shut_out(federation, kind, seed):
    tables, bad, _ = federation
    good = [g for g in range(CLIENTS) if g not in bad]
    sites = [
        Traitor(tables, g, good[0], kind) if g in bad else Site(table)
        for g, table in enumerate(tables)
    ]
    finished = federate(sites, Schedule(), seed)

    assert finished.rejected == dict.fromkeys(sorted(bad), 3)
    assert {e["client"] for e in finished.trace.of("left")} == set(bad)
    assert set(finished.tallies) == set(good)
    assert finished.trace.events[-1]["reason"] == "done"


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", DETECTABLE)
def test_a_refused_message_leaves_the_state_as_it_was(federation, kind, seed):
    """To the byte, hello and answer alike."""
    tables, bad, _ = federation
    good = [g for g in range(CLIENTS) if g not in bad]

    class Late(Traitor):
        """Honest up to its hello."""

        def answer(self, request):
            if self.kind != COPY and b"AskHello" in request:
                return self.honest(request)
            return super().answer(request)

    class Watching(Coordinator):
        """Notes the state around every refusal."""

        def _refuse(self, client, contact, error):
            refusals.append(contact)
            before = pickle.dumps(self._state)
            self._refusals.forgive(client)  # without being shut out
            super()._refuse(client, contact, error)
            assert pickle.dumps(self._state) == before

    refusals: list[int] = []
    for kind_of_site in (Traitor, Late):
        sites = [
            kind_of_site(tables, g, good[0], kind) if g in bad else Site(table)
            for g, table in enumerate(tables)
        ]
        transport = InProcess(sites, Schedule().bind(CLIENTS, seed))
        spec = Spec(get_method("afcl"), seed=seed, max_rounds=4)
        Watching(spec, transport).run()
    assert refusals


def test_whoever_repeats_himself_is_heard_once(seed):
    """A hello that comes again through the same ticket changes nothing."""
    X = make_sd1(seed)[0][:400]
    tables = split(X, kmeans_split(X, CLIENTS, seed))

    class Echo(InProcess):
        def poll(self):
            answers = super().poll()
            self.old = [*getattr(self, "old", []), *answers]
            return [*answers, *(replace(old) for old in self.old)]

    def run(kind):
        sites = [Site(table) for table in tables]
        transport = kind(sites, Schedule().bind(CLIENTS, seed))
        return Coordinator(Spec(get_method("afcl"), seed=seed), transport).run()

    once, often = run(InProcess), run(Echo)

    assert often.trace.of("duplicate")
    assert often.rejected == {}
    assert pickle.dumps(often.state) == pickle.dumps(once.state)
