"""Loops that append, one behind the other, become one map."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.fuse_loops import ReadLoopsPass
from passes.graphs import walk_nodes
from rewriter.compare import compare


def chain(length: int, between: str = "", outputs: str = "float[M,a,b] y", opset: int = 17) -> str:
    """Return a chain of Loops that append; each reads the list of the one before."""
    loops = []
    for i in range(length):
        before = f"s{i - 1}" if i else "xs"
        loops.append(f"""
          n{i} = SequenceLength ({before})
          e{i} = SequenceEmpty <dtype = 1> ()
          s{i} = Loop <body = step{i} (int64 i{i}, bool c{i}, seq(float[]) a{i})
              => (bool go{i}, seq(float[]) b{i}) {{
            x{i} = SequenceAt ({before}, i{i})
            r{i} = {"Tanh" if i % 2 else "Neg"} (x{i})
            b{i} = SequenceInsert (a{i}, r{i})
            go{i} = Identity (c{i})
          }}> (n{i}, t, e{i})""")
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    main (seq(float[a,b]) xs, float[k] w) => ({outputs}) {{
      t = Constant <value = bool {{1}}> ()
      {"".join(loops)}
      {between}
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s{length - 1})
    }}"""


def kinds(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in walk_nodes(ir.from_proto(model).graph)}


def check(text: str, **options: object) -> onnx.ModelProto:
    before = onnx.parser.parse_model(text)
    result = rewriter.rewrite(before, **options)
    names = [output.name for output in before.graph.output]
    xs = [np.random.default_rng(i).standard_normal((2, 3)).astype(np.float32) for i in range(4)]
    feeds = {"xs": xs, "w": np.ones(2, np.float32)}
    found = [rewriter.ReferenceEvaluator(m).run(None, feeds) for m in (before, result.model)]
    difference = compare(*(dict(zip(names, values, strict=True)) for values in found))
    assert difference.equal, difference.message
    return result.model


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_chain_of_equal_shapes_ends_without_a_loop(length: int, opset: int) -> None:
    after = check(chain(length, opset=opset), uniform=["xs"], require=["loop-free"])
    assert "SplitToSequence" not in kinds(after)


def test_nothing_is_left_of_the_loops_that_were_merged() -> None:
    after = check(chain(5), uniform=["xs"])
    model = ir.from_proto(after)
    unread = [
        node.op_type
        for node in walk_nodes(model.graph)
        if not any(out.uses() or out.is_graph_output() for out in node.outputs)
    ]
    assert unread == []


def test_what_a_loop_that_comes_back_reads_is_still_there() -> None:
    between = """n9 = SequenceLength (s0)
      e9 = SequenceEmpty <dtype = 1> ()
      s9 = Loop <body = step9 (int64 i9, bool c9, seq(float[]) a9)
          => (bool go9, seq(float[]) b9) {
        r9 = RandomNormal <shape = [2]> ()
        b9 = SequenceInsert (a9, r9)
        go9 = Identity (c9)
      }> (n9, t, e9)
      f = SequenceLength (s9)"""
    check(chain(2, between, "float[M,a,b] y, int64 f"), uniform=["xs"])


def test_the_report_says_what_became_of_each() -> None:
    report = rewriter.explain(onnx.parser.parse_model(chain(2)), uniform=["xs"])
    first, second = report.decisions
    assert (str(first.verdict), first.form) == ("fused", f"part of {second.path}")
    assert str(second.verdict) == "fused"


def test_a_list_that_is_read_elsewhere_stays() -> None:
    text = chain(2, "f = SequenceAt (s0, zero)", "float[M,a,b] y, float[a,b] f").replace(
        "t = Const", "zero = Constant <value = int64 {0}> ()\n      t = Const"
    )
    assert "Loop" not in kinds(check(text, uniform=["xs"]))


def test_what_cannot_be_batched_keeps_both_as_they_were() -> None:
    text = chain(2).replace("Neg (", "RandomNormalLike (").replace("Tanh (", "RandomNormalLike (")
    model = ir.from_proto(onnx.parser.parse_model(text))
    before = ir.to_proto(model)
    reading = ReadLoopsPass(auto=True)
    assert not reading(model).modified
    assert [str(d.verdict) for d in reading.decisions] == ["kept", "kept"]
    assert ir.to_proto(model) == before


def test_a_second_loop_of_another_number_of_steps_is_not_merged() -> None:
    text = chain(2).replace("n1 = SequenceLength (s0)", "n1 = Size (w)")
    check(text, uniform=["xs"])
