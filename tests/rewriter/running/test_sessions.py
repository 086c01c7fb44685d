"""A model that is opened once and run many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqmap
from rewriter import backends
from tests.rewriter.cli_models import RAGGED

X = np.array([[-1, 2, -3, 4]], np.float32)
ONE = np.ones(4, np.float32)


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_it_is_opened_once(rows: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    opened: list[Any] = []
    open_session = backends.open_session
    monkeypatch.setattr(
        backends, "open_session", lambda *given: opened.append(given) or open_session(*given)
    )
    with seqmap.session(rows, backend) as session:
        for x in (X, 2 * X, np.tile(X, (3, 1))):
            outputs = session.run({"x": x, "bias": ONE})
            np.testing.assert_array_equal(outputs["y"], np.maximum(x + 1, 0))
    assert [given[1:] for given in opened] == [(backend, "cpu")]


def test_bound_inputs_stay(rows: Path) -> None:
    session = seqmap.session(rows).bind(bias=ONE)
    np.testing.assert_array_equal(session.run({"x": X})["y"], [[0, 3, 0, 5]])
    np.testing.assert_array_equal(session.run({"x": X, "bias": 0 * ONE})["y"], [[0, 2, 0, 4]])
    np.testing.assert_array_equal(session.bind(x=X).run()["y"], [[0, 3, 0, 5]])
    with pytest.raises(seqmap.RewriteError, match="bias"):
        session.bind(bias=None).run()


@pytest.mark.parametrize("names", [None, ["y"], ("y",)])
def test_the_call_of_an_inference_session(rows: Path, names: Any) -> None:
    (y,) = seqmap.session(rows).run(names, {"x": X, "bias": ONE})
    np.testing.assert_array_equal(y, [[0, 3, 0, 5]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            (["z"], {"x": X, "bias": ONE}), "no output 'z'; its outputs are y", id="name"
        ),
        pytest.param(({"x": X, "bias": ONE}, None, None), "run takes the inputs, or", id="three"),
        pytest.param((None, {"x": X}), "bias", id="an input is missing"),
    ],
)
def test_wrong_calls(rows: Path, given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(seqmap.RewriteError, match=message):
        seqmap.session(rows).run(*given)


def test_sequences_are_lists(tmp_path: Path, ragged: Path) -> None:
    assert "seq(" in RAGGED
    outputs = seqmap.session(ragged).run({"xs": [X[0, :2], ONE]})
    assert [item.tolist() for item in outputs["ys"]] == [[-1, 2], [1]]


def test_wrong_inputs_and_a_closed_session(rows: Path) -> None:
    with (
        seqmap.session(rows) as session,
        pytest.raises(
            seqmap.RewriteError, match=r"'x' has shape \[4\] and is declared as \[N,4\]"
        ),
    ):
        session.run({"x": X[0], "bias": ONE})
    with pytest.raises(seqmap.BackendError, match="the session is closed"):
        session.run({"x": X, "bias": ONE})


def test_a_backend_that_is_not_there(rows: Path) -> None:
    with pytest.raises(seqmap.BackendError, match="there is no backend 'abacus'"):
        seqmap.session(rows, backend="abacus")
    with pytest.raises(seqmap.BackendError, match=r"tinygrad; did you mean 'openvino'\?$"):
        seqmap.session(rows, backend="openvno")
