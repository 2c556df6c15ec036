"""What is public, what it loads, and that the shelves are complete."""

import inspect
import subprocess
import sys

import pytest

import afcl


def test_all_is_sorted_and_importable():
    assert afcl.__all__ == sorted(afcl.__all__)
    for name in afcl.__all__:
        assert getattr(afcl, name) is not None
    assert set(afcl.__all__) <= set(dir(afcl))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'AFLC'"):
        _ = afcl.AFLC


@pytest.mark.parametrize("name", afcl.__all__)
def test_public_objects_have_docstrings(name):
    assert inspect.getdoc(getattr(afcl, name))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import afcl", ["numpy", "sklearn", "polars", "numba", "typer"]),
        ("import afcl.cli", ["numpy", "sklearn", "polars", "numba"]),
        (
            "from afcl import AFCL",
            [
                *("polars", "numba", "flwr", "matplotlib", "plotly", "fastapi"),
                *("typer", "rich", "onnx", "onnxruntime", "cryptography"),
            ],
        ),
        ("import afcl.runtime.simulate", ["sklearn", "polars", "numba"]),
    ],
)
def test_imports_stay_light(statement, absent):
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(absent) & set(loaded)


def test_a_small_fit_does_not_wait_for_a_compiler():
    program = (
        "import sys, numpy as np\nfrom afcl import AFCL\n"
        "X = np.random.default_rng(0).normal(size=(150, 4))\n"
        "AFCL(random_state=0).fit(X)\nprint('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
