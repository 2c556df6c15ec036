"""The conformance checks catch what they are for."""

from dataclasses import replace

import numpy as np
import pytest

from afcl import methods
from afcl.exceptions import InputError
from afcl.methods.afcl import Afcl
from afcl.testing import check_method


class Unseeded(Afcl):
    """Draws from a generator of its own."""

    name = "unseeded"
    rng = np.random.default_rng(0)

    def hello(self, X, params, rng):
        return super().hello(X, params, self.rng)


class Meddler(Afcl):
    """Modifies the rows it is given."""

    name = "meddler"

    def client_step(self, broadcast, X, memory, params, rng):
        update, memory = super().client_step(broadcast, X, memory, params, rng)
        X += 1e-3
        return update, memory


class Trusting(Afcl):
    """Believes every message."""

    name = "trusting"

    def absorb(self, state, message):
        try:
            return super().absorb(state, message)
        except ValueError:
            return state, {}


class Loser(Afcl):
    """Answers with a centre that is not a number."""

    name = "loser"

    def result(self, state):
        found = super().result(state)
        return replace(found, centers=np.full((found.k, 2), np.nan))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Unseeded, "two runs differ"),
        (Meddler, "modified"),
        (Trusting, "accepted"),
        (Loser, "not finite"),
    ],
)
def test_faults_are_found(kind, text, monkeypatch):
    monkeypatch.setitem(methods._REGISTRY, kind.name, f"{__name__}:{kind.__name__}")
    monkeypatch.setattr(methods, "import_module", lambda name: _Here)
    with pytest.raises(AssertionError, match=text):
        check_method(kind())


class _Here:
    Unseeded, Meddler, Trusting, Loser = Unseeded, Meddler, Trusting, Loser


def test_a_name_is_registered_once(monkeypatch):
    monkeypatch.setattr(methods, "_REGISTRY", dict(methods._REGISTRY))
    methods.register_method("own", Afcl)
    methods.register_method("own", Afcl)
    assert isinstance(methods.get_method("own"), Afcl)
    for name in ("dk++", "any-k:own"):
        with pytest.raises(InputError, match="is taken"):
            methods.register_method(name, Afcl)
