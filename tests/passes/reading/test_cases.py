"""How often a Loop runs where Ifs yield its condition, as TorchScript writes ``continue``."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.proof.compare import compare

pytestmark = pytest.mark.quick

LOOP = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N] x, int64 n) => (float[M] y) <bool yes = {{1}}, bool no = {{0}}, float f = {{0}}> {{
    one = Constant <value_int = 1> () zero = Constant <value_int = 0> ()
    m = Constant <value_int = 9223372036854775807> () begins = Less (zero, n)
    y = Loop (m, begins) <body = b (int64 i, bool c) => (bool d, float s) {{
        j = Add (i, one) e = Gather (x, i) {goes_on} s = Neg (e) }}> }}"""


def _if(outputs: str, condition: str, then: str, other: str) -> str:
    """Write an If; each branch yields booleans by Identity."""
    return f"{outputs} = If ({condition}) <then_branch = {then}, else_branch = {other}>"


def _branch(mark: str, values: str, nodes: str = "") -> str:
    names = [f"{mark}{i}" for i, _ in enumerate(values.split())]
    made = " ".join(f"{o} = Identity({v})" for o, v in zip(names, values.split(), strict=True))
    outputs = ", ".join(f"bool {name}" for name in names)
    return f"{mark} () => ({outputs}) {{ {nodes} {made} }}"


INNER = _if("u, v", "q", _branch("ti", "yes no"), _branch("ei", "no yes"))
CONTINUE_TWICE = (
    _if(
        "a, k, w",
        "p",
        _branch("t", "yes yes no"),
        _branch("e", "q u v", f"q = Less(f, e) {INNER}"),
    )
    + " r = Cast <to = 9> (a) "
    + _if("g", "r", _branch("th", "k"), _branch("eh", "w"))
    + " z = Less (j, n) d = And (z, g)"
)
AGO = "p = Less(e, f) "
GOES_ON = {
    "two flags of a continue": AGO + CONTINUE_TWICE,
    "what the count says in both branches": AGO
    + _if("d", "p", _branch("t", "a", "a = Less(j, n)"), _branch("e", "b", "b = Greater(n, j)")),
    "what is true if one or the other is": AGO
    + "o = Not(p) w = Or(p, o) z = Less (j, n) "
    + _if("g", "w", _branch("t", "yes"), _branch("e", "no"))
    + " d = And (z, g)",
    "what is true if not both are": AGO
    + "o = Not(p) w = And(o, p) z = Less (j, n) "
    + _if("g", "w", _branch("t", "no"), _branch("e", "yes"))
    + " d = And (z, g)",
}
LEAVES = {
    "a branch that ends it": AGO
    + "z = Less (j, n) "
    + _if("g", "p", _branch("t", "no"), _branch("e", "yes"))
    + " d = And (z, g)",
    "a branch that asks something else": AGO
    + "q = Less(f, e) z = Less (j, n) "
    + _if("g", "p", _branch("t", "yes"), _branch("e", "q"))
    + " d = And (z, g)",
    "a flag that the other one does not tell": AGO
    + CONTINUE_TWICE.replace("q = Less(f, e)", "h = Add(e, one_f) q = Less(f, h)").replace(
        "If (q) <", "If (p2) <"
    ),
}


def _feeds(number: int) -> dict[str, np.ndarray]:
    x = np.array([-1, 2, 0, -3, 4, 5], np.float32)
    return {"x": x, "n": np.array(number)}


@pytest.mark.parametrize("name", GOES_ON)
def test_it_runs_as_often(name: str) -> None:
    model = onnx.parser.parse_model(LOOP.format(goes_on=GOES_ON[name]))
    after = rewriter.optimize(model, strategy="fuse", require=["loop-free"])
    before = rewriter.ReferenceEvaluator(model)
    for number in (0, 1, 2, 6):
        feeds = _feeds(number)
        found = [one.run(None, feeds)[0] for one in (before, rewriter.ReferenceEvaluator(after))]
        difference = compare({"y": found[0]}, {"y": found[1]})
        assert difference.equal, difference.message


@pytest.mark.parametrize("name", LEAVES)
def test_it_stays_where_a_case_ends_it(name: str) -> None:
    text = LOOP.format(goes_on="one_f = Cast <to = 1> (one) p2 = Less(e, one_f) " + LEAVES[name])
    result = rewriter.rewrite(onnx.parser.parse_model(text), strategy="fuse")
    assert "early-exit" in str(result.report)
