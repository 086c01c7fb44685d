"""Why a Loop stays whose carried value goes through a Loop inside."""

from __future__ import annotations

import onnx
import pytest

import rewriter

# name: what the inner Loop does, why the outer one stays
INNER = {
    "a recurrence": ("t = Add (u, r)  u2 = Tanh (t)", "goes through a Loop inside, which stays"),
    "its own past twice": (
        "t = Mul (u, r)  u1 = Tanh (t)  u2 = Add (u1, u)",
        "goes through a Loop inside, which stays",
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_the_reason_points_to_the_loop_inside(name: str) -> None:
    nodes, detail = INNER[name]
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[N,4] x, float[4] start, int64 n) => (float[4] y) <bool yes = {{1}}> {{
          y = Loop (n, yes, start) <body = o (int64 i, bool c, float[4] s) => (bool d, float[4] s2) {{
            d = Identity (yes)
            s2 = Loop (n, yes, s) <body = b (int64 j, bool e, float[4] u) => (bool f, float[4] u2) {{
              f = Identity (yes)  r = Gather (x, j)  {nodes} }}> }}> }}""")
    report = rewriter.explain(model)
    reasons = {decision.path: decision.reasons[0] for decision in report.decisions}
    outer = next(reason for reason in reasons.values() if reason.op_type == "Loop")
    inner = next(reason for reason in reasons.values() if reason.op_type != "Loop")
    assert detail in outer.detail
    assert outer.remedy.startswith("see what keeps the loop inside")
    assert "depends on its own past" in inner.detail
