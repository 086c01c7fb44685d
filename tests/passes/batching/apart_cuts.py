"""Bodies that cut where operands tell, or along axes that they tell, and what is out of range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.passes.batching.apart import ENGINES, Misplaced
from tests.passes.batching.apart_cases import (
    DATA,
    LENGTHS,
    ROWS,
    SQUARE,
    beyond,
    floats,
    made,
    one,
    places,
)
from tests.passes.batching.harness import Operand, constant, shared
from tests.passes.batching.ragged import ragged

__all__ = ["CUTS"]

WITHIN = [
    *(
        made(
            "Slice",
            name,
            (4, 5, 6, 7, 9, -4, -5, -6, -7),
            label=f"{kind} data, step {step}",
            text=f"y = Slice(x, {'i, o' if name == 'starts' else 'o, i'}, a, t)",
            x=data,
            i=i,
            o=one(5 if (name == "ends") != (step > 0) else 0),
            a=constant(np.array([0])),
            t=constant(np.array([step])),
            # onnxruntime takes the largest end for the first row where it cuts backwards.
            far=name == "starts" or step > 0,
        )
        for name in ("starts", "ends")
        for kind, data in {**DATA, "packed": ragged(3, lengths=(3, 6, 2))}.items()
        for step in (1, 2, -1, -2)
        for i in (
            places([1], [2], [0]),
            one({"starts": 1, "ends": 5}[name] if step > 0 else -1 if name == "starts" else 0),
        )
        if (kind, i.kind) != ("shared", "shared")
    ),
    *(
        made("Trilu", "k", (4, -4, 9), f"<upper = {upper}>", x=x, i=i)
        for upper in (0, 1)
        for x, i in (
            (SQUARE, places(0, 1, -1)),
            (SQUARE, places(1, kind="shared")),
            (DATA["shared"], places(0, 1, -1)),
            (ROWS, places(0, 1, -1)),
            (ROWS, places(1, kind="shared")),
        )
    ),
    *(
        made(
            "Split",
            "split",
            bad,
            attributes,
            text=f"y, z = Split{attributes}(x, i)",
            outputs=("y", "z"),
            x=x,
            i=shared(np.array(i)),
        )
        for attributes, x, i, bad in (
            ("", SQUARE, [1, 3], ([1, 4], [2, 1], [-1, 5], [5, -1])),
            ("<axis = 1>", ROWS, [1, 2], ([1, 4], [1, 1], [-1, 4], [4, -1])),
        )
    ),
    made(
        "SplitToSequence",
        "split",
        ([1, 4], [2, 1], [-1, 5]),
        text="s = SplitToSequence(x, i) n = Constant<value_int = 0>() y = SequenceAt(s, n)",
        x=SQUARE,
        i=shared(np.array([1, 3])),
    ),
    *(
        made(
            op_type,
            "position",
            bad,
            text=f"s = SequenceConstruct(x, z) n = Constant<value_int = 0>() {text}",
            x=SQUARE,
            z=floats(4, 3),
            i=shared(np.array(1)),
        )
        for op_type, bad, text in (
            ("SequenceAt", beyond(2), "y = SequenceAt(s, i)"),
            ("SequenceErase", beyond(2), "q = SequenceErase(s, i) y = SequenceAt(q, n)"),
            ("SequenceInsert", beyond(3)[2:], "q = SequenceInsert(s, x, i) y = SequenceAt(q, n)"),
        )
    ),
]
REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
)


def along(
    op_type: str, name: str, text: str, *, opset: int = 18, **operands: Operand
) -> Iterator[Misplaced]:
    """Yield cases of axes, or of one axis, that a graph input and a constant tell.

    Along which axis packed samples are changed must be known before they run.
    """
    bad = beyond(3) if op_type == "Unsqueeze" else (*beyond(3), *beyond(2))
    given = np.array(1) if name == "axis" else np.array([1])
    is_packed = operands["x"].kind == "ragged"
    for i in (constant(given),) if is_packed else (constant(given), shared(given)):
        # The evaluator counts axes of these around.
        engines = [e for e in ENGINES if e != "evaluator" or op_type not in ("DFT", "Pad")]
        yield made(
            op_type,
            name,
            bad,
            text=text,
            opset=opset,
            engines=engines,
            i=i,
            **operands,
        )


AXES = [
    *(
        case
        for x in (SQUARE, ROWS)
        for op_type in REDUCTIONS.split()
        for case in along(op_type, "axes", f"y = {op_type}<keepdims = 0>(x, i)", x=x)
    ),
    *(
        case
        for x in (SQUARE, ROWS)
        for case in (
            *along("CumSum", "axis", "y = CumSum(x, i)", x=x),
            *along("CumProd", "axis", "y = CumProd(x, i)", opset=26, x=x),
            *along("Unsqueeze", "axes", "y = Unsqueeze(x, i)", x=x),
            *along("Slice", "axes", "y = Slice(x, s, e, i)", x=x, s=one(1), e=one(2)),
        )
    ),
    *along("Squeeze", "axes", "y = Squeeze(x, i)", x=floats(4, 1)),
    *along("Squeeze", "axes", "y = Squeeze(x, i)", x=ragged(1, lengths=LENGTHS)),
    *along("Pad", "axes", "y = Pad(x, p, , i)", x=SQUARE, p=shared(np.array([1, 1]))),
    *along("Pad", "axes", "y = Pad(x, p, , i)", x=ROWS, p=shared(np.array([1, 1]))),
    *along("DFT", "axis", "y = DFT(x, , i)", opset=20, x=floats(2, 4, 1)),
    made(
        "AffineGrid",
        "size",
        ([3, 1, 2, 2], [1, 1, 2, 2], [0, 1, 2, 2], [-2, 1, 2, 2]),
        opset=20,
        x=floats(2, 2, 3),
        i=shared(np.array([2, 1, 2, 2])),
    ),
]

CUTS = [*WITHIN, *AXES]
