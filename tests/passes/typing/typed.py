"""Typed models, for the tests of typing."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs
from passes.typing import (
    Typings,
    type_both_ways,
)

__all__ = ["FUNCTION", "HEADER", "LOCAL", "MAP", "both", "load", "values"]

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
LOCAL = '<ir_version: 10, opset_import: ["" : 18, "local" : 1, "other" : 1]>\n'
MAP = f"""{HEADER}g (seq(float[2,N]) xs, float[3] c) => (seq(float[2,N]) ys, float[P] out) {{
  ys = SequenceMap (xs) <body = b (x) => (y) {{
    s = Shape (x)
    t = Add (x, x)
    w = Concat <axis = 0> (c, c)
    y = Identity (t) }}>
  out = Neg (c)
}}"""
FUNCTION = """
<domain: "local", opset_import: ["" : 18, "other" : 1]>
f <k: int = 0> (a) => (b) {
  t = Neg (a)
  u = ReduceSum <keepdims: int = @k> (t)
  b = other.f (t)
}
<domain: "other", opset_import: ["" : 18]>
f (p) => (q) { q = Abs (p) }
"""


def load(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def values(model: ir.Model) -> dict[str, ir.Value]:
    """Return the values of a model by their names."""
    found: dict[str, ir.Value] = {}
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.initializers.values()):
            found[value.name or ""] = value
        for node in graph:
            found |= {value.name or "": value for value in node.outputs}
    return found


def both(text: str) -> tuple[Typings, dict[str, ir.Value]]:
    model = load(text)
    return type_both_ways(model), values(model)
