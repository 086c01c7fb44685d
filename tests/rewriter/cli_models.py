"""Small models for the tests of the command line, and how those run it."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from rewriter.cli import main

HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'
ROWS = (
    HEADER
    + """
agraph (float[N,4] x, float[4] bias) => (float[N,4] y)
{
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [rows] ys = SequenceMap (xs, bias) <body = row (float[4] r, float[4] b) => (float[4] q)
    { s = Add (r, b)  q = Relu (s) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}
"""
)
RAGGED = (
    HEADER
    + """
agraph (seq(float[L]) xs) => (seq(float[M]) ys)
{
  [ragged] ys = SequenceMap (xs) <body = b (float[L] p) => (float[M] q) { q = Unique (p) }>
}
"""
)
TWO = (
    HEADER
    + """
agraph (seq(float[L]) xs, seq(float[L]) zs) => (seq(float[L]) ys)
{
  [sums] ys = SequenceMap (xs, zs) <body = b (float[L] p, float[L] r) => (float[L] q)
    { q = Add (p, r) }>
}
"""
)
PLAIN = HEADER + "agraph (float[N] x) => (float[N] y) { y = Relu (x) }"
LAST_LINE = re.compile(r"(passed|failed) (\w+) in \d+\.\d s")

Capture = pytest.CaptureFixture[str]


def write(path: Path, text: str) -> Path:
    if path.suffix == ".onnxtxt":
        path.write_text(text)
    else:
        onnx.save(onnx.parser.parse_model(text), path)
    return path


def seqmap(*words: str | Path) -> int:
    return main([str(word) for word in words])


def op_types(path: Path) -> set[str]:
    return {node.op_type for node in ir.load(path).graph.all_nodes()}


def last_line(text: str) -> tuple[str, str]:
    match = LAST_LINE.fullmatch(text.splitlines()[-1])
    assert match, text
    return match[1], match[2]


WRONG = (
    HEADER
    + """
agraph (float[N,4] x, float[4] bias) => (float[N,4] y) { s = Sub (x, bias)  y = Relu (s) }
"""
)
