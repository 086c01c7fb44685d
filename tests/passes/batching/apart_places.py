"""Bodies that read or write at places in an axis, and the places that they do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tests.passes.batching.apart import Misplaced
from tests.passes.batching.apart_cases import (
    DATA,
    LENGTHS,
    ROWS,
    SQUARE,
    beyond,
    both,
    floats,
    made,
    places,
)
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import ragged

__all__ = ["PLACES"]

TWO = {
    "mapped": places([0, 1], [1, 2], [1, 0]),
    "shared": places([0, 1], kind="shared"),
    "ragged": places([0, 1], [2, 1, 0], [1, 1], kind="ragged"),
}


def columns(x: Operand) -> Operand:
    """Return places as coordinates of one number."""
    return Operand(x.kind, tuple(a[:, None] for a in x.samples))


def mixes() -> Iterator[tuple[str, Operand, Operand, tuple[int, ...]]]:
    """Yield data and two places or more in its first axis, of which one at least differs."""
    for kind, data in DATA.items():
        for i in TWO.values():
            if kind != "shared" or i.kind != "shared":
                yield f"{kind} data", data, i, beyond(3 if kind == "packed" else 4)


ACROSS = [[0, 1, 2], [1, 2, 3]]
"""Places along the first axis of two rows."""
OF_ROWS = places([[0, 1, 1]] * 2, [[0, 1, 2]] * 3, [[1, 1, 0]] * 2, kind="ragged")
FEWER = places([[0, 1, 1]], [[0, 1, 2]] * 2, [[1, 1, 0]], kind="ragged")
UPDATES, MORE = floats(2, 3), ragged(3, lengths=(1, 2, 1))

GATHERS = [
    *(made("Gather", "indices", bad, label=n, x=x, i=i) for n, x, i, bad in mixes()),
    *(
        made("Gather", "indices", beyond(3), "<axis = 1>", x=x, i=i)
        for x, i in ((SQUARE, TWO["mapped"]), (SQUARE, TWO["shared"]), (ROWS, TWO["shared"]))
    ),
    *(made("GatherND", "indices", bad, label=n, x=x, i=columns(i)) for n, x, i, bad in mixes()),
    *(
        made("GatherND", "indices", beyond(3), label="whole coordinates", x=SQUARE, i=i)
        for i in both([[0, 1], [1, 2]])
    ),
    *(
        made("GatherND", "indices", beyond(3), "<batch_dims = 1>", x=SQUARE, i=i)
        for i in both([[0], [1], [2], [0]])
    ),
    *(
        made("GatherElements", "indices", beyond(4), x=x, i=i)
        for x in (SQUARE, DATA["shared"])
        for i in both(ACROSS)
        if x is SQUARE or i.kind == "mapped"
    ),
    *(
        made("GatherElements", "indices", beyond(3), "<axis = 1>", x=SQUARE, i=i)
        for i in both([[0], [1], [2], [0]])
    ),
    *(
        made("GatherElements", "indices", beyond(3), f"<axis = {axis}>", x=ROWS, i=OF_ROWS)
        for axis in (0, 1)
    ),
]
SCATTERS = [
    *(
        made(
            "ScatterElements", "indices", beyond(4), f'<reduction = "{how}">', x=x, i=i, u=UPDATES
        )
        for how in ("none", "add", "max")
        for x in (SQUARE, DATA["shared"])
        for i in both(ACROSS)
    ),
    *(
        made("ScatterElements", "indices", beyond(3), x=ROWS, i=i, u=u)
        for i, u in ((FEWER, MORE), (OF_ROWS, ragged(3, lengths=LENGTHS)))
    ),
    *(
        made("ScatterND", "indices", beyond(4), f'<reduction = "{how}">', x=x, i=i, u=UPDATES)
        for how in ("none", "add")
        for x in (SQUARE, DATA["shared"])
        for i in both([[0], [1]])
    ),
    made(
        "ScatterND",
        "indices",
        beyond(3),
        x=SQUARE,
        i=places(*[[[0, 1], [1, 2]]] * 3),
        u=mapped((2,)),
    ),
    made(
        "ScatterND",
        "indices",
        beyond(4),
        x=SQUARE,
        i=columns(TWO["ragged"]),
        u=ragged(3, lengths=LENGTHS),
    ),
    made(
        "ScatterND",
        "indices",
        beyond(3),
        x=ROWS,
        i=places([[0]], [[0], [1]], [[1]], kind="ragged"),
        u=MORE,
    ),
    *(
        made(
            "TensorScatter",
            "write_indices",
            (3, -1, 4, -4, -5, 8),
            f'<mode = "{mode}">',
            opset=24,
            x=x,
            u=u,
            i=i,
        )
        for mode in ("linear", "circular")
        for x, u, i in (
            (floats(2, 4, 3), floats(2, 2, 3), places(*[[0, 2]] * 3)),
            (floats(2, 4, 3), floats(2, 2, 3), places([0, 2], kind="shared")),
            (
                ragged(4, 3, lengths=LENGTHS),
                ragged(2, 3, lengths=LENGTHS),
                places([0, 2], [1, 1, 2], [2, 0], kind="ragged"),
            ),
        )
    ),
]
HOT = {"of all": shared(np.array([10, 20], np.float32)), "own": floats(2)}
PICKS = [
    *(
        made(
            "OneHot",
            "indices",
            (*beyond(4),),
            axis,
            label=f"{n} values{axis}",
            i=i,
            d=places(4, kind="shared"),
            v=v,
        )
        for axis in ("", "<axis = 0>")
        for n, v in HOT.items()
        for i in TWO.values()
        if (n, i.kind) not in (("of all", "shared"), ("own", "ragged"))
    ),
    # onnxruntime leaves out conditions beyond the last row, the evaluator fails there.
    *(
        made(
            "Compress",
            "condition",
            [True],
            attributes,
            label=f"{kind} data{attributes}",
            x=DATA[kind],
            engines=["onnxruntime"],
            i=Operand(c, tuple(np.arange(size) < k for k in (counts if c == "mapped" else [10]))),
        )
        for attributes, size, counts in (("<axis = 0>", 6, (1, 2, 1)), ("", 14, (3, 5, 2)))
        for kind in DATA
        for c in ("mapped", "shared")
        if (kind, c) != ("shared", "shared")
    ),
    made(
        "TopK",
        "K",
        (5, -1),
        text="y, j = TopK<axis = 0>(x, i)",
        outputs=("y", "j"),
        x=SQUARE,
        i=places([2], kind="shared"),
    ),
    made(
        "TopK",
        "K",
        (4, -1),
        text="y, j = TopK(x, i)",
        outputs=("y", "j"),
        x=ROWS,
        i=places([2], kind="shared"),
    ),
]
IMAGES, REGIONS = floats(2, 3, 4, 4), shared(np.array([[0, 0, 2, 2], [1, 1, 3, 3]], np.float32))
POOLS = [
    *(
        made("MaxUnpool", "I", beyond(16), "<kernel_shape = [2, 2], strides = [2, 2]>", x=x, i=i)
        for x in (floats(1, 1, 2, 2), shared(floats(1, 1, 2, 2).first))
        for i in both([[[[0, 3], [8, 13]]]])
        if "mapped" in (x.kind, i.kind)
    ),
    *(
        made(
            "RoiAlign",
            "batch_indices",
            beyond(2),
            "<output_height = 2, output_width = 2>",
            x=x,
            r=REGIONS,
            i=i,
        )
        for x in (IMAGES, shared(IMAGES.first))
        for i in both([0, 1])
        if "mapped" in (x.kind, i.kind)
    ),
    made(
        "RoiAlign",
        "batch_indices",
        beyond(2),
        # What is no number is refused as a region: these follow from the places.
        text="f = Cast<to = 1>(i) n = Sub(f, f) c = Unsqueeze(n, a) r = Add(c, w) "
        "y = RoiAlign<output_height = 2, output_width = 2>(x, r, i)",
        label="ragged",
        x=IMAGES,
        i=places([0, 1], [1], [0, 1], kind="ragged"),
        a=constant(np.array([1])),
        w=shared(REGIONS.samples[0][:1]),
    ),
    *(
        made(
            "MaxRoiPool",
            "rois",
            [[[n, 0, 0, 2, 2]] for n in (2, -1, 3, -2, 1.5, -0.5, 2.0**31, -(2.0**31), np.nan)],
            "<pooled_shape = [2, 2]>",
            x=x,
            i=i,
        )
        for x in (IMAGES, shared(IMAGES.first))
        for i in both([[1, 0, 0, 2, 2]], np.float32)
        if "mapped" in (x.kind, i.kind)
    ),
]
WEIGHTS = {
    "": {},
    "shared ": {"w": shared(np.arange(4, dtype=np.float32) + 1)},
    "own ": {"w": floats(4)},
}
LOSSES = [
    made(
        op_type,
        name,
        beyond(4),
        f'<reduction = "{how}"{ignored}>',
        label=f"{n}weights, {how}{ignored}",
        x=x,
        i=i,
        **weights,
    )
    for op_type, name in (
        ("NegativeLogLikelihoodLoss", "target"),
        ("SoftmaxCrossEntropyLoss", "labels"),
    )
    for how in ("none", "mean")
    for n, weights in WEIGHTS.items()
    for ignored in ("", ", ignore_index = -1")
    for x, i in (
        (floats(2, 4), places([0, 1], [2, 3], [3, 0])),
        (floats(2, 4), places([0, 1], kind="shared")),
        (ragged(4, lengths=LENGTHS), places([0, 1], [2, 3, 1], [3, 0], kind="ragged")),
    )
    if i.kind != "ragged" or how == "none" or not (weights or ignored)
]


def recurrent(op_type: str, gates: int, i: Operand) -> Misplaced:
    weights = {n: shared(np.ones((1, gates * 2, k), np.float32)) for n, k in (("w", 3), ("r", 2))}
    text = f"y, h = {op_type}<hidden_size = 2>(x, w, r, , i)"
    outputs = ("y", "h")
    return made(
        op_type,
        "sequence_lens",
        (5, -1, -4),
        text=text,
        outputs=outputs,
        x=floats(4, 2, 3),
        i=i,
        **weights,
    )


def rotated(n: str, caches: Sequence[Operand], x: Operand, i: Operand) -> Misplaced:
    text = "y = RotaryEmbedding(x, c, s, i)"
    c, s = caches
    return made(
        "RotaryEmbedding",
        "position_ids",
        beyond(4),
        opset=23,
        label=n,
        text=text,
        x=x,
        c=c,
        s=s,
        i=i,
    )


STEPS = [
    *(
        made(
            "ReverseSequence",
            "sequence_lens",
            (5, -1, 0, -4, 8),
            f"<time_axis = {t}, batch_axis = {1 - t}>",
            x=floats(*shape),
            i=i,
        )
        for t, shape in ((0, (4, 2)), (1, (2, 4)))
        for i in both([1, 4])
    ),
    *(
        made(
            "ReverseSequence",
            "sequence_lens",
            (5, -1, 0, -4, 8),
            "<time_axis = 0, batch_axis = 1>",
            label="packed",
            engines=("onnxruntime",),  # the evaluator counts from the end of a batch
            x=ragged(2, lengths=(4, 5, 4)),
            i=i,
        )
        for i in both([1, 4])
    ),
    *(
        recurrent(op_type, gates, i)
        for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
        for i in both([1, 4], np.int32)
    ),
    *(
        rotated(n, caches, x, i)
        for n, caches in (
            ("caches of all", [shared(floats(4, 2).first)] * 2),
            ("own caches", [floats(4, 2)] * 2),
        )
        for x, i in (
            *((floats(1, 2, 3, 4), i) for i in both([[0, 1, 3]])),
            (
                ragged(2, 3, 4, lengths=LENGTHS),
                places(*([[0, 1, 3]] * k for k in LENGTHS), kind="ragged"),
            ),
        )
        if n != "own caches" or i.kind != "ragged"
    ),
    *(
        made(
            "Attention",
            "nonpad_kv_seqlen",
            (5, -1, 8),
            text="y = Attention(q, q, q, , , , i)",
            opset=24,
            q=q,
            i=i,
        )
        for q, i in (
            *((floats(2, 1, 4, 2), i) for i in both([1, 4])),
            (
                ragged(1, 4, 2, lengths=LENGTHS),
                places([1, 4], [2, 4, 3], [4, 1], kind="ragged"),
            ),
        )
    ),
]

PLACES = [*GATHERS, *SCATTERS, *PICKS, *POOLS, *LOSSES, *STEPS]
