"""What other tools make of a rewritten model computes the same.

Where a tool breaks on a defect of its own, that is a row of ``KNOWN`` with the reason, and a test
at the end shows the defect on a model without any of our nodes, so that we notice when it is
mended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pathlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import onnx_graphsurgeon
import onnxruntime
import onnxscript.optimizer
import onnxsim
import onnxslim
import pytest
from polygraphy.tools._main import main as polygraphy

from rewriter.backends import run
from rewriter.feeding.feeds import read_feeds
from rewriter.pipeline import Strategy, rewrite
from rewriter.proof.compare import compare
from tests.test_zoo import STRATEGIES, VALID, load, make_feeds

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'


def through_graphsurgeon(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx_graphsurgeon.export_onnx(onnx_graphsurgeon.import_onnx(model))


def through_onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxslim.slim(model, no_shape_infer=True)


def through_onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxsim.simplify(model)[0]


def through_polygraphy(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = pathlib.Path(folder) / "m.onnx"
        onnx.save(model, path)
        words = ["polygraphy", "inspect", "model", str(path), "--show", "layers", "attrs"]
        patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            sys.exit(polygraphy())
        assert not ended.value.code
        return onnx.load(path)


def through_onnxruntime(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = f"{folder}/m.onnx"
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(f"{folder}/m.onnx")


def through_text(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.parser.parse_model(onnx.printer.to_text(model))


def through_onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxscript.optimizer.optimize(model)


Tool = Callable[[onnx.ModelProto], onnx.ModelProto]
TOOLS: list[Tool] = [
    through_graphsurgeon,
    through_onnxslim,
    through_onnxsim,
    through_polygraphy,
    through_onnxruntime,
    through_text,
    through_onnxscript,
]


@dataclasses.dataclass(frozen=True)
class Row:
    """A defect of a tool: what it says then, and why."""

    tool: Tool
    error: str
    reason: str


KNOWN = [
    Row(
        through_onnxslim,
        r"'list' object has no attribute 'nbytes'",
        "it folds a SequenceConstruct of constants, and has no place for a list",
    ),
    Row(
        through_onnxslim,
        r"bound to different types|Graph attribute inferencing failed|expected type \(tensor\(double",
        "it writes the `value_float` of a Constant as a double; the models as given break too",
    ),
    Row(
        through_onnxslim,
        "maximum recursion depth exceeded",
        "it orders the nodes of functions without end; the models as given break too",
    ),
    Row(
        through_onnxruntime,
        "single static assignment",
        "it turns a Gather of a Range into a Slice whose names are the same in a graph and in "
        "the branches of an If",
    ),
    Row(
        through_text,
        r"Constant <value: tensor = string\[0\]\}>",
        "the printer writes an empty tensor of strings without its opening brace",
    ),
]


@functools.cache
def rewritten(path: pathlib.Path, strategy: Strategy) -> tuple[onnx.ModelProto, dict[str, Any]]:
    model = rewrite(load(path), strategy=strategy).model
    vector = path.with_suffix(".npz")
    return model, read_feeds(vector, path) if vector.exists() else make_feeds(load(path), 3)


def survives(tool: Tool, path: pathlib.Path, strategy: Strategy) -> None:
    before, feeds = rewritten(path, strategy)
    copy = onnx.ModelProto()
    copy.CopyFrom(before)  # tools change what they are given
    try:
        after = call(tool, copy)
        left = {value.name for value in after.graph.input}  # one that nothing reads may go
        actual = run(after, {name: value for name, value in feeds.items() if name in left})
    except Exception as error:
        if any(row.tool is tool and re.search(row.error, str(error)) for row in KNOWN):
            return
        raise
    difference = compare(run(before, feeds), actual)
    assert difference.equal, difference.message


def call(tool: Tool, model: onnx.ModelProto) -> onnx.ModelProto:
    """Run a tool; what it prints and warns of is its own."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tool(model)


def name_of(value: Any) -> str:
    return value.__name__ if callable(value) else getattr(value, "stem", str(value))


@pytest.mark.long
@pytest.mark.parametrize("path", VALID[::4], ids=name_of)
@pytest.mark.parametrize("tool", TOOLS, ids=name_of)
def test_a_rewritten_model_survives(tool: Tool, path: pathlib.Path) -> None:
    survives(tool, path, "auto")


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", VALID, ids=name_of)
@pytest.mark.parametrize("tool", TOOLS, ids=name_of)
def test_every_rewritten_model_survives(
    tool: Tool, path: pathlib.Path, strategy: Strategy
) -> None:
    survives(tool, path, strategy)


# --- the defects, each on a model of its own -----------------------------------------------------

X = {"x": np.arange(3, dtype=np.float32)}
DEFECTS: dict[str, tuple[Tool, str, str]] = {
    "onnxslim folds SequenceConstruct": (
        through_onnxslim,
        """g (float[N] x) => (float[M] y) { c = Constant <value = float[1] {0}> ()
            s = SequenceConstruct (c)  t = SequenceInsert (s, x)
            y = ConcatFromSequence <axis = 0> (t) }""",
        "no attribute 'nbytes'",
    ),
    "onnxslim makes doubles": (
        through_onnxslim,
        "g (float[N] x) => (float[N] y) { c = Constant <value_float = 0.5> ()  y = Add (x, c) }",
        "bound to different types",
    ),
    "onnxruntime repeats names": (
        through_onnxruntime,
        """g (float[N] x, int64 n, bool c) => (float[M] y) {
            a = Constant <value = int64 {0}> ()  b = Constant <value = int64 {1}> ()
            r = Range (a, n, b)  z = Gather (x, r)
            y = If (c) <then_branch = t () => (float[K] u) { s = Range (b, n, b)  u = Gather (x, s) },
                        else_branch = e () => (float[L] v) { v = Neg (z) }> }""",
        "single static assignment",
    ),
    "the printer loses a brace": (
        through_text,
        "g () => (string[0] y) { y = Constant <value = string[0] {}> () }",
        r"string\[0\]\}",
    ),
}


@pytest.mark.parametrize(("tool", "text", "error"), DEFECTS.values(), ids=DEFECTS)
def test_the_defect_is_still_there(tool: Tool, text: str, error: str) -> None:
    model = onnx.parser.parse_model(HEADER + text)
    feeds = X | {"n": np.array(2), "c": np.array(True)}
    with pytest.raises(Exception, match=error):
        run(call(tool, model), {v.name: feeds[v.name] for v in model.graph.input})


def test_onnxslim_still_types_elements_wrong() -> None:
    """Why its inference is switched off: it gives the elements of a sequence one rank of its own."""
    text = """g (seq(float[N]) xs) => (float[M] y) {
        c = Constant <value = float[1,1] {0}> ()  l = SequenceInsert (xs, c)
        s = SequenceErase (l)  i = Constant <value = int64 {0}> ()  y = SequenceAt (s, i) }"""
    model = call(onnxslim.slim, onnx.parser.parse_model(HEADER + text))
    inserted = [v.type.sequence_type for v in model.graph.value_info if v.name == "l"]
    assert any(known.elem_type.tensor_type.HasField("shape") for known in inserted)


def test_onnxslim_still_recurses_without_end() -> None:
    (path,) = (path for path in VALID if path.stem == "function_in_body")
    with pytest.raises(RecursionError):
        call(through_onnxslim, load(path))
