"""Every method that is installed, every check: a new entry point is a new test."""

import pytest

from afcl import method_names
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.testing import check_method

#: Options that make a check of a slow method quick.
QUICK = {
    "fedgengmm": {"max_clusters": 3, "max_local": 3},
    "pooled-bgmm": {"max_clusters": 4},
    "pooled-ccl": {"n_seeds": 6, "max_epochs": 20},
    "pooled-gmm-bic": {"max_clusters": 4},
    "pooled-kmeans-sweep": {"max_clusters": 4},
}
#: Methods that need a package of their own, which nothing else does.
NEEDS = {"pooled-genie": "genieclust"}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", method_names())
def test_conforms(name, seed):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    check_method(name, seed=seed, **QUICK.get(name, {}))


@pytest.mark.parametrize(
    "name", [name for name in method_names() if get_method(name).needs_k]
)
def test_who_must_know_k_says_so(name):
    with pytest.raises(InputError, match="told the number of clusters"):
        get_method(name).parameters()
