# SPDX-License-Identifier: Apache-2.0
"""The extension point: a method of somebody else's package, found by its metadata."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from afcl import methods
from afcl.exceptions import InputError

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-method.md"
USE = """
import sys

import afcl
import afcl.methods

assert "twice" in afcl.method_names()
assert "toy.twice" not in sys.modules, "imported before it was asked for"

import numpy as np

from afcl.core.messages import Hello
from afcl.runtime.codec import decode, encode
from afcl.testing import check_method

check_method("twice")
X = np.vstack([np.zeros((20, 2)), np.ones((20, 2))])
model = afcl.make_method("twice", n_clusters=2, random_state=0)
assert model.fit(X, clients=np.arange(40) % 4).n_clusters_ == 2
assert afcl.methods.get_method("loud:twice").name == "twice"
"""
DECODE = """
import sys
from afcl.runtime.codec import decode
data = bytes.fromhex(sys.argv[1])
print(type(decode(data)).__module__)
"""


@pytest.fixture
def toy(tmp_path):
    """A package with the how-to page's method, as an installer would leave it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    package, info = tmp_path / "toy", tmp_path / "toy-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "twice.py").write_text(
        blocks[0] + "\n\nfrom afcl.core.messages import payload\n\n\n@payload\n"
        "@dataclass(frozen=True)\nclass Loudness:\n    level: int\n\n\n"
        "def loud(name):\n    return Twice()\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[afcl.methods]\ntwice = toy.twice:Twice\n\n"
        "[afcl.wrappers]\nloud = toy.twice:loud\n"
    )
    return tmp_path


def run(folder, program, *arguments):
    head = f"import sys\nsys.path.insert(0, {str(folder)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + program, *arguments],
        capture_output=True,
        text=True,
    )


def test_a_method_of_another_package_runs_like_ours(toy):
    done = run(toy, USE)
    assert done.returncode == 0, done.stderr


def test_its_messages_are_read_by_who_has_not_used_it_yet(toy):
    encoded = run(
        toy,
        "from afcl.runtime.codec import encode\nfrom toy.twice import Loudness\n"
        "print(encode(Loudness(3)).hex())",
    )
    done = run(toy, DECODE, encoded.stdout.strip())
    assert done.stdout.strip() == "toy.twice", done.stderr


def test_a_broken_package_is_named_and_disturbs_nobody_else(toy):
    (toy / "toy" / "twice.py").write_text("import nothing_of_this_name")
    program = (
        "from afcl.methods import get_method, load_payloads\nload_payloads()\n"
        "get_method('k-fed')\nget_method('twice')"
    )
    last = run(toy, program).stderr.splitlines()[-2]
    assert "toy.twice:Twice cannot be loaded" in last
    assert "nothing_of_this_name" in last


def test_two_packages_with_one_name_are_named(toy):
    other = toy / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (other / "entry_points.txt").write_text("[afcl.methods]\ntwice = other:Twice\n")
    done = run(toy, "import afcl\nafcl.method_names()")
    assert "both bring a method named 'twice'" in done.stderr.splitlines()[-2]


def test_afcls_own_methods_are_found_without_looking_at_other_packages():
    program = (
        "import sys\nfrom afcl.methods import get_method\nget_method('afcl')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.stdout.strip() == b"False"


def test_the_skeletons_are_public():
    for name in methods.__all__:
        assert getattr(methods, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'rivals'"):
        _ = methods.rivals


def test_unknown_names_and_prefixes_are_refused():
    for name in ("k-means", "some-k:k-fed"):
        with pytest.raises(InputError, match="unknown method"):
            methods.get_method(name)


def test_both_packages_have_one_version_and_fit_each_other():
    assert version("afcl") == version("afcl-bench")
    (needed,) = [
        Requirement(text)
        for text in requires("afcl-bench") or ()
        if Requirement(text).name == "afcl"
    ]
    assert needed.specifier.contains(version("afcl"))
