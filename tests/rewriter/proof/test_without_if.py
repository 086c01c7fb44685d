"""A target that takes If but refuses some gets a model without, where there is one."""

from __future__ import annotations

import pathlib

import onnx
import pytest

from passes.graph.graphs import all_graphs
from passes.typing import type_values
from rewriter.backends import open_session
from rewriter.model_files.model_facts import count_operators
from rewriter.model_files.models import take
from rewriter.pipeline import explain, rewrite
from rewriter.proof.compare import compare
from rewriter.targets import TargetError
from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds

pytestmark = pytest.mark.long

RUNNING = """r, ys = Loop (n, t, b) <body = step (int64 i, bool cond, float[4] s)
        => (bool go, float[4] s2, float[4] y) {
        e = Gather <axis = 0> (x, i)  s2 = Max (s, e)  y = Identity (s2)  go = Identity (cond)
    }>"""
GIVEN = """d = Gather <axis = 0> (f, zero)  q = If (d) <
        then_branch = yes () => (float[4] v) { v = Neg (b) },
        else_branch = no () => (float[4] v2) { v2 = Abs (b) }>"""
DRAWN = GIVEN.replace("v = Neg (b)", "v3 = RandomUniformLike (b)  v = Sub (v3, v3)")


def _model(nodes: str, outputs: str) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["" : 17]>\n'
    text = f"{head} g ({INPUTS}) => ({outputs}) {{ {SCALARS} {COUNT} {nodes} }}"
    return onnx.parser.parse_model(text)


COLLECTED = "float[4] r, float[T,4] ys"
NONE, GIVEN_ALONE, OURS = (0, 0), (1, 0), (3, 2)
"""How many Ifs and loops are left; ours holds the Loop as given, for few iterations, and one of the
steps for many."""
CASES = {
    "one of ours": (
        RUNNING,
        COLLECTED,
        {"onnxruntime": OURS, "openvino": NONE, "tensorrt": (5, 0)},
    ),
    "one of the model": (
        GIVEN,
        "float[4] q",
        {"onnxruntime": GIVEN_ALONE, "openvino": GIVEN_ALONE, "tensorrt": GIVEN_ALONE},
    ),
    "both": (
        RUNNING + GIVEN,
        f"{COLLECTED}, float[4] q",
        {"onnxruntime": (4, 2), "openvino": NONE},
    ),
    "one that stays": (RUNNING + DRAWN, f"{COLLECTED}, float[4] q", {"openvino": (4, 2)}),
}


@pytest.mark.parametrize(("name", "target"), [(n, t) for n, c in CASES.items() for t in c[2]])
def test_a_form_without_if_is_preferred_where_the_target_refuses_some(
    name: str, target: str
) -> None:
    nodes, outputs, wanted = CASES[name]
    model = _model(nodes, outputs)
    result = rewrite(model, target=target)
    after = result.report.after
    assert (after.by_type.get("If", 0), after.loops) == wanted[target]
    assert explain(model, target=target).after == result.report.after
    assert count_operators(take(result.model).model) == result.report.after
    if "Random" not in nodes:
        before, after = open_session(model), open_session(result.model)
        for feed in map(feeds, LENGTHS):
            difference = compare(before.run(feed), after.run(feed))
            assert difference.equal, difference.message


MODELS = pathlib.Path(__file__).parents[3] / "models"
ZOO = sorted((*MODELS.glob("text/*.onnxtxt"), *MODELS.glob("exported/*.onnx")))


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_what_an_if_of_ours_yields_has_a_rank(path: pathlib.Path) -> None:
    """OpenVINO refuses an If with a result of unknown rank."""
    given = take(path).model
    own = {node.name for graph in all_graphs(given) for node in graph if node.op_type == "If"}
    try:
        made = take(rewrite(path, target="openvino").model).model
    except TargetError:
        return  # nothing is handed out
    typing = type_values(made)
    ifs = [node for graph in all_graphs(made) for node in graph if node.op_type == "If"]
    results = [value for node in ifs if node.name not in own for value in node.outputs]
    unknown = [value.name for value in results if typing.rank(value) is None]
    assert not unknown
