"""Promises that are none, or that the declared types contradict, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import rewriter
from tests.rewriter.cli_models import HEADER, seqmap, write

MODEL = (
    HEADER
    + """
g (seq(float[L,3]) xs, float[N,4] w, float v) => (seq(float[L,3]) ys)
{
  ys = SequenceMap (xs) <body = b (float[L,3] p) => (float[L,3] q) { q = Softmax (p) }>
}
"""
)
NO_DIM = "give a number from 0 to 9223372036854775807"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another rank": ({"w": [4]}, "[4] is promised for input 'w', whose declared shape is [N,4]"),
    "a scalar": ({"v": [1]}, "[1] is promised for input 'v', whose declared shape is []"),
    "another number": ({"w": [2, 5]}, "[2,5] is promised for input 'w', whose declared shape"),
    "another number of elements": ({"xs": [None, 4]}, "[?,4] is promised for elements of 'xs'"),
    "another rank of elements": ({"xs": []}, "[] is promised for elements of 'xs'"),
    "a float": ({"w": [2.0, 4]}, f"the dimension 2.0 is promised for 'w': {NO_DIM}"),
    "a bool": ({"w": [True, 4]}, f"the dimension True is promised for 'w': {NO_DIM}"),
    "a negative number": ({"w": [-1, 4]}, f"the dimension -1 is promised for 'w': {NO_DIM}"),
    "a large number": ({"w": [2**63, 4]}, "the dimension 9223372036854775808 is promised"),
    "a string": ({"w": "24"}, "the shape '24' is promised for 'w': give a list of dimensions"),
    "a number": ({"w": 4}, "the shape 4 is promised for 'w': give a list of dimensions"),
    "an unknown name": ({"z": [1]}, "the promised shape is for 'z', which is no input"),
}


@pytest.mark.parametrize(("shapes", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(rewriter.RewriteError) as caught:
        rewriter.optimize(onnx.parser.parse_model(MODEL), input_shapes=shapes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "dims", [(2, 4), [np.int64(2), 4], ["M", 4], (None, None)], ids=["tuple", "numpy", "", "open"]
)
def test_taken(dims: Any) -> None:
    rewriter.optimize(onnx.parser.parse_model(MODEL), input_shapes={"w": dims})


def test_a_string_is_one_name() -> None:
    model = onnx.parser.parse_model(MODEL)
    report = rewriter.explain(model, uniform="xs", require="sequence-free")
    assert report.promises.uniform == {"xs"}
    assert report.require == ("sequence-free",)
    assert rewriter.explain(model, uniform=["xs"]).promises.uniform == {"xs"}


@pytest.mark.parametrize("uniform", [5, [5], b"xs"], ids=["a number", "numbers", "bytes"])
def test_uniform_of_no_names(uniform: Any) -> None:
    with pytest.raises(rewriter.RewriteError, match="give a list of names"):
        rewriter.optimize(onnx.parser.parse_model(MODEL), uniform=uniform)


@pytest.mark.parametrize("field", ["tensor_io", "trust_types", "exact"])
@pytest.mark.parametrize("given", ["triton", "no", 1, None])
def test_a_flag_is_true_or_false(field: str, given: Any) -> None:
    with pytest.raises(rewriter.RewriteError, match=f"{field} is {given!r}: give True or False"):
        rewriter.optimize(onnx.parser.parse_model(MODEL), **{field: given})


@pytest.mark.parametrize(
    ("given", "status"),
    [("w=4", 1), ("w=2,5", 1), ("xs=?,4", 1), ("w=2,4", 0), ("xs=?,3", 0)],
)
def test_on_the_command_line(tmp_path: Path, given: str, status: int) -> None:
    source = write(tmp_path / "in.onnx", MODEL)
    assert seqmap("explain", source, "--input-shape", given) == status


def test_a_number_that_no_dimension_can_be_is_wrong_usage(tmp_path: Path) -> None:
    source = write(tmp_path / "in.onnx", MODEL)
    with pytest.raises(SystemExit, match="2"):
        seqmap("explain", source, "--input-shape", f"w={2**63},4")


@pytest.mark.parametrize("size", [2**62, 2**40])
def test_inputs_too_large_to_be_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    source = write(tmp_path / "in.onnx", MODEL)
    out = tmp_path / "out.onnx"
    assert seqmap("optimize", source, out, "--input-shape", f"w={size},4") == 1
    assert "give inputs with --inputs" in capsys.readouterr().err
    assert seqmap("optimize", source, out, "--input-shape", f"w={size},4", "--no-verify") == 0


def test_a_call_that_does_not_fit_says_how_it_may_be_meant() -> None:
    call: Any = rewriter.optimize
    with pytest.raises(TypeError, match=r"optimize\(\) .*: all but the model are keyword argum"):
        call("m.onnx", "fuse")
    with pytest.raises(TypeError, match="'stategy'; did you mean 'strategy'"):
        call("m.onnx", stategy="fuse")
    with pytest.raises(
        TypeError, match=r"'output'; the new model is returned: onnx.save\(model, "
    ):
        call("m.onnx", output="out.onnx")
    with pytest.raises(rewriter.RewriteError, match="verify is 'yes': give True or False"):
        call("m.onnx", verify="yes")


def test_no_sequence_inputs() -> None:
    model = onnx.parser.parse_model(f"{HEADER} g (float[N] x) => (float[N] y) {{ y = Relu(x) }}")
    with pytest.raises(rewriter.RewriteError, match="no sequence input of the model; it has none"):
        rewriter.optimize(model, uniform=["x"])
