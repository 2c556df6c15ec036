# SPDX-License-Identifier: Apache-2.0
"""Other programs give the same labels."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from afcl import AFCL, make_method
from afcl.cli import main
from afcl.data.synthetic import make_mixture
from afcl.exceptions import InputError
from afcl.export import FORMATS, write_export
from afcl.runtime.results import write_result_file

onnxruntime = pytest.importorskip("onnxruntime")

PMML = "{http://www.dmg.org/PMML-4_4}"


@pytest.fixture(scope="module", params=["minmax", "robust", None])
def model(request):
    X, _ = make_mixture(
        5, 4, n_samples=1500, separation=2.5, imbalance=3.0, random_state=0
    )
    X = X * [1.0, 100.0, 1e-3, 1.0] + [0.0, 5e4, 0.0, -7.0]
    return AFCL(scale=request.param, random_state=0).fit(X, clients=np.arange(1500) % 4)


@pytest.fixture(scope="module")
def rows(model):
    """Many rows, some of them far outside."""
    rng = np.random.default_rng(1)
    low, span = model._box.low, model._box.span
    rows = low + span * rng.normal(0.5, 0.5, (10_000, 4))
    rows[:50] += span * rng.normal(0, 80, (50, 4))
    return rows


def by_onnx(path, rows):
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {"X": rows})


def by_pmml(path, rows):
    """Do what PMML 4.4 says of such a document."""
    (found,) = ElementTree.parse(path).getroot().iter(f"{PMML}ClusteringModel")
    scaled = {}
    places = {
        field.get("name"): place
        for place, field in enumerate(found.iter(f"{PMML}MiningField"))
    }
    for derived in found.iter(f"{PMML}DerivedField"):
        (norm,) = derived.iter(f"{PMML}NormContinuous")
        (x0, y0), (x1, y1) = (
            (float(point.attrib["orig"]), float(point.attrib["norm"])) for point in norm
        )
        values = rows[:, places[norm.get("field")]]
        scaled[derived.get("name")] = y0 + (values - x0) / (x1 - x0) * (y1 - y0)
    fields = [each.get("field") for each in found.iter(f"{PMML}ClusteringField")]
    table = np.column_stack([scaled[name] for name in fields])
    centers = np.array(
        [
            [float(x) for x in (array.text or "").split()]
            for array in found.iter(f"{PMML}Array")
        ]
    )
    return ((table[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


def by_json(path, rows):
    """Do what the document says in words."""
    told = json.loads(path.read_text())
    scaled = (rows - told["low"]) / told["span"]
    centers = np.array(told["scaled_centers"])
    return ((scaled[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


def test_onnx_gives_the_same_labels(model, rows, tmp_path):
    path = model.export(tmp_path / "model.onnx")
    labels, distances = by_onnx(path, rows)
    assert np.array_equal(labels, model.predict(rows))
    assert np.allclose(distances, model.transform(rows), atol=1e-9)


def test_onnx_takes_gaps(tmp_path):
    X, _ = make_mixture(
        4, 3, n_samples=800, separation=2.5, imbalance=1.0, random_state=0
    )
    fitted = AFCL(missing="available", random_state=0).fit(X)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    labels, _ = by_onnx(fitted.export(tmp_path / "model.onnx"), holes)
    assert np.array_equal(labels, fitted.predict(holes))
    assert (labels == -1).any()


def test_pmml_gives_the_same_labels(model, rows, tmp_path):
    if model._box.walls:
        with pytest.raises(InputError, match="PMML cannot say"):
            model.export(tmp_path / "model.pmml")
        return
    path = model.export(tmp_path / "model.pmml")
    assert np.array_equal(by_pmml(path, rows), model.predict(rows))


def test_json_gives_the_same_labels(model, rows, tmp_path):
    path = model.export(tmp_path / "model.json")
    if model._box.walls:
        assert "walls" in json.loads(path.read_text())["how"]
        return
    assert np.array_equal(by_json(path, rows), model.predict(rows))


def test_the_command_writes_what_the_model_writes(model, tmp_path, capsys):
    write_result_file(tmp_path, model._result)
    for kind in FORMATS:
        if kind == "pmml" and model._box.walls:
            continue
        with pytest.raises(SystemExit) as ended:
            main(["export", str(tmp_path), "--to", kind])
        assert ended.value.code == 0
        own = model.export(tmp_path / f"own.{kind}")
        assert (tmp_path / f"model.{kind}").read_bytes() == own.read_bytes()
        assert f"model.{kind}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), "--to", "json", "--out", str(tmp_path / "x")])
    assert ended.value.code == 0
    assert (tmp_path / "x").is_file()


@pytest.mark.parametrize("name", ["model", "model.xml"])
def test_an_unknown_format_is_named(model, tmp_path, name):
    with pytest.raises(InputError, match="choose one of onnx, pmml, json"):
        model.export(tmp_path / name)


def test_without_centres_there_is_nothing(model, tmp_path):
    result = {**model._result, "centers": None}
    with pytest.raises(InputError, match="has no centres"):
        write_export(result, tmp_path / "model.json")
    cells = {**model._result, "shape": {"name": "connected", "reason": ""}}
    with pytest.raises(InputError, match="labelled cells: export to json"):
        write_export(cells, tmp_path / "model.onnx")


def test_clusters_that_are_not_round_are_places(tmp_path):
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 400)
    ring = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    X = np.concatenate([ring, np.zeros((200, 2))]) + rng.normal(0, 0.3, (600, 2))
    fitted = AFCL(shape="connected", random_state=0).fit(X, clients=np.arange(600) % 4)
    found = json.loads(fitted.export(tmp_path / "model.json").read_text())
    scaled = (X - found["low"]) / found["span"]
    away = ((scaled[:, None] - np.array(found["scaled_places"])) ** 2).sum(axis=2)
    labels = np.array(found["place_labels"])[away.argmin(axis=1)]
    assert np.array_equal(labels, fitted.predict(X))
    assert "place_labels of the point in scaled_places" in found["how"]
    for refused in (fitted.transform, fitted.predict_proba, fitted.score):
        with pytest.raises(InputError, match="labelled cells"):
            refused(X)


def test_a_rival_can_be_exported(tmp_path):
    X, _ = make_mixture(
        3, 2, n_samples=300, separation=4.0, imbalance=1.0, random_state=0
    )
    fitted = make_method("k-fed", n_clusters=3, random_state=0).fit(X)
    labels, _ = by_onnx(fitted.export(tmp_path / "model.onnx"), X)
    assert np.array_equal(labels, fitted.predict(X))


def test_without_onnx_a_line_says_what_to_install(model, tmp_path):
    write_result_file(tmp_path, model._result)
    program = (
        "import sys\nsys.modules['onnx'] = None\nfrom afcl.cli import main\n"
        f"main(['export', {str(tmp_path)!r}, '--to', 'onnx'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("pip install 'afcl[export]'")
