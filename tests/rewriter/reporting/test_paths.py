"""Reports name every map and every node by its path in the model as given."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from passes.graph.graphs import PATH_KEY, all_graphs, local_name, node_paths, paths_below

pytestmark = pytest.mark.long

MODELS = pathlib.Path(__file__).parents[3] / "models"
ZOO = sorted(MODELS.glob("*/*.onnx*"))
OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "fuse": {"strategy": "fuse"},
    "expand": {"strategy": "expand"},
    "tensors": {"target": "tensorrt", "tensor_io": True},
}

RECURRENCE = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N,4] x, float[4] b) => (float[4] last) {
    unread = Neg (x)
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    more = Identity (unread)
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    xs = SplitToSequence <axis = 0, keepdims = 0> (x)
    last = Loop (n, t, b) <body = step (int64 i, bool c, float[4] s) => (bool go, float[4] s2) {
        left_out = Neg (s)
        e = SequenceAt (xs, i)
        u = Add (s, e)
        s2 = Tanh (u)
        go = Identity (c)
    }>
}"""


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_a_loop_without_a_name_that_moves(strategy: str) -> None:
    given = onnx.parser.parse_model(RECURRENCE)
    (decision,) = rewriter.rewrite(given, strategy=strategy).report.decisions
    paths = node_paths(ir.from_proto(given))
    (path,) = (path for node, path in paths.items() if node.op_type == "Loop")
    assert decision.verdict is Verdict.KEPT
    assert decision.path == path
    assert all(reason.node.startswith(f"{path}/") for reason in decision.reasons)


BLAMED = {
    "Loop": (
        """g (int64 n, bool t, float[N,4] x) => (float[N,M] y) {
            y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[M] u) {
                d = Identity (c)
                axis = Constant <value = int64 {0}> ()
                e = Gather (x, i)
                p = Exp (e)
                u = Unique (p)
                last = Neg (u) }> }""",
        "Loop_0/body/Unique_4",
    ),
    "Scan": (
        """g (float[N,4] x) => (float[N,M] y) {
            unread = Neg (x)
            y = Scan <num_scan_inputs = 1, body = b (float[4] e) => (float[M] u) {
                left_out = Neg (e)
                p = Exp (e)
                q = Identity (p)
                u = Unique (q) }> (x) }""",
        "Scan_1/body/Unique_3",
    ),
    "SequenceMap": (
        """g (seq(float[4]) xs, float[4] w) => (seq(float[M]) ys) {
            ys = SequenceMap (xs) <body = b (float[4] e) => (float[M] u) {
                v = Neg (w)
                left_out = Neg (e)
                p = Add (e, v)
                u = Unique (p) }> }""",
        "SequenceMap_0/body/Unique_3",
    ),
    "an If of the body whose branch is known": (
        """g (seq(float[4]) xs) => (seq(float[M]) ys) {
            ys = SequenceMap (xs) <body = b (float[4] e) => (float[M] u) {
                yes = Constant <value = bool {1}> ()
                u = If (yes) <
                    then_branch = h () => (float[M] k) { p = Exp (e)  k = Unique (p) },
                    else_branch = l () => (float[M] m) { m = Exp (e) }> }> }""",
        "SequenceMap_0/body/If_1/then_branch/Unique_1",
    ),
    "a map in a Loop": (
        """g (int64 n, bool t, seq(float[4]) xs) => (seq(float[M]) ys) {
            zero = Constant <value = int64 {0}> ()
            first = SequenceAt (xs, zero)
            none = SequenceConstruct (first)
            ys = Loop (n, t, none) <body = o (int64 i, bool c, seq(float[A]) s)
                => (bool d, seq(float[B]) r) {
                d = Identity (c)
                r = SequenceMap (s) <body = b (float[A] e) => (float[B] u) {
                    p = Exp (e)  u = Unique (p) }> }> }""",
        "Loop_3/body/SequenceMap_1/body/Unique_1",
    ),
    "a map in a map": (
        """g (seq(float[4]) xs, seq(float[4]) zs) => (seq(float[M]) ys) {
            ys = SequenceMap (xs) <body = o (float[4] f) => (float[M] w) {
                unread = Neg (f)
                ws = SequenceMap (zs) <body = b (float[4] e) => (float[B] u) {
                    p = Exp (e)  u = Unique (p) }>
                w = ConcatFromSequence <axis = 0> (ws) }> }""",
        "SequenceMap_0/body/SequenceMap_1/body/Unique_1",
    ),
    "a function that holds a map": (
        """g (seq(float[4]) xs) => (seq(float[M]) ys) {
            some = Identity (xs)
            ys = local.each (some) }
        <domain: "local", opset_import: ["" : 18]>
        each (xs) => (ys) {
            unread = SequenceLength (xs)
            ys = SequenceMap (xs) <body = b (float[4] e) => (float[B] u) {
                p = Exp (e)  u = Unique (p) }> }""",
        "local.each/SequenceMap_1/body/Unique_1",
    ),
    "a function that a body calls": (
        """g (seq(float[4]) xs) => (seq(float[M]) ys) {
            ys = SequenceMap (xs) <body = b (float[4] e) => (float[B] u) {
                p = Exp (e)  u = local.some (p) }> }
        <domain: "local", opset_import: ["" : 18]>
        some (x) => (y) { z = Neg (x)  y = Unique (z) }""",
        "SequenceMap_0/body/some_1/Unique_1",
    ),
}


@pytest.mark.parametrize("name", BLAMED)
def test_the_node_that_is_blamed_is_found_in_the_model(name: str) -> None:
    graph, path = BLAMED[name]
    imports = ['"" : 18', *(['"local" : 1'] if "local" in graph else [])]
    model = onnx.parser.parse_model(
        f"<ir_version: 8, opset_import: [{', '.join(imports)}]>\n{graph}"
    )
    reasons = [r for d in rewriter.explain(model, strategy="fuse").decisions for r in d.reasons]
    assert path in [reason.node for reason in reasons if reason.op_type == "Unique"]
    called, _, inside = path.partition("/some_1/")
    given = node_paths(ir.from_proto(model)).values()
    assert ({f"{called}/some_1", f"local.some/{inside}"} if inside else {path}) <= {*given}


def unnamed(path: pathlib.Path) -> ir.Model:
    model = rewriter.load(path)
    for graph in all_graphs(model):
        for node in graph:
            node.name = ""
    return model


def named_by_position(path: pathlib.Path) -> ir.Model:
    model = unnamed(path)
    for graph in all_graphs(model):
        for index, node in enumerate(graph):
            node.name = local_name(node, index)
    return model


def check_names(path: pathlib.Path, options: dict[str, Any]) -> None:
    model = unnamed(path)
    record = rewriter.explain(model, **options).to_dict()
    named = rewriter.explain(named_by_position(path), **options).to_dict()
    assert record["maps"] == named["maps"]
    assert record["unreached"] == named["unreached"]
    given = {*node_paths(model).values(), *called_paths(model)}
    told = {node["path"] for node in record["maps"]}
    told |= {r["node"] for entry in record["maps"] for r in entry["reasons"] if r["node"]}
    assert {one for one in told if one not in given} <= TOLD_APART
    assert not any(PATH_KEY in node.meta for graph in all_graphs(model) for node in graph)


def called_paths(model: ir.Model) -> Iterator[str]:
    """Name the nodes of functions by the nodes that call them."""
    functions = model.functions
    for node, path in node_paths(model).items():
        if (function := functions.get(node.op_identifier())) is not None:
            yield from paths_below(function, f"{path}/").values()


TOLD_APART = {
    "local.leaky_all/SequenceMap_0_1",
    "Scan_0/body/SequenceMap_1_1",
    "Scan_0/body/SequenceMap_1_2",
}
"""The map of a function that is called twice, and the maps of each copy of a Scan's step."""


@pytest.mark.parametrize("path", ZOO[::8], ids=lambda path: path.stem)
def test_a_report_does_not_depend_on_names(path: pathlib.Path) -> None:
    check_names(path, {})


COPIED = {
    "a Scan that stands in two Loops": ("seqmap_issue23024_group_cummatmul", "expand"),
    "a Loop that stands in two Loops": ("control_flow_in_body", "expand"),
    "a map that a Loop became": ("ts_semseg_postprocess", "fuse"),
    "a node of a function that a body calls": ("pad_behind", "fuse"),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_told_of_by_the_path_of_the_first(name: str) -> None:
    stem, options = COPIED[name]
    (path,) = (path for path in ZOO if path.stem == stem)
    check_names(path, OPTIONS[options])


@pytest.mark.full
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_no_report_depends_on_names(path: pathlib.Path, options: dict[str, Any]) -> None:
    check_names(path, options)


def test_a_new_model_keeps_no_note_of_paths() -> None:
    model = rewriter.rewrite(ir.from_proto(onnx.parser.parse_model(RECURRENCE))).model
    assert isinstance(model, ir.Model)
    assert not any(PATH_KEY in node.meta for graph in all_graphs(model) for node in graph)
