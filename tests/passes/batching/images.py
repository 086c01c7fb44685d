"""Proves rules for flat samples: images of random sizes, against onnxruntime on each alone.

onnxruntime judges since it is its bits that Resize is to have; ONNX's evaluator rounds otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion

__all__ = [
    "FlatCase",
    "as_given",
    "assert_same",
    "drawn",
    "loops_and_sequences",
    "prove_flat",
    "prove_nothing",
    "reached",
    "without_loops",
]

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Any]
_DTYPES = {
    "float": np.float32,
    "uint8": np.uint8,
    "int8": np.int8,
    "int64": np.int64,
    "bool": np.bool_,
}
_LEFT = frozenset({"Loop", "Scan", "If", "SequenceMap"})


@dataclasses.dataclass(frozen=True)
class FlatCase:
    """A body over images of any size.

    Attributes:
        name: Id of the test.
        nodes: The nodes of the body as ONNX text; they read ``x`` and compute the outputs.
        element: The declared type of ``x``; a letter stands for a size of any number.
        result: The declared type of each output.
        outputs: Their names.
        stacked: Whether they are stacked by a ConcatFromSequence.
        least: The least size.
        most: The largest size.
        never: Sizes that are not drawn: a known defect or a known rounding is met there.
        low: The least number of an image.
        high: The largest.
        tolerance: Relative to the largest number; 0 asks for identical bits.
        opset: Version of ONNX's operators.
    """

    name: str
    nodes: str
    element: str = "float[H,W,3]"
    result: str = "float[h,w,3]"
    outputs: Sequence[str] = ("y",)
    stacked: bool = False
    least: int = 1
    most: int = 24
    never: Sequence[int] = ()
    low: float = 0.0
    high: float = 255.0
    tolerance: float = 0.0
    opset: int = 18

    def __str__(self) -> str:
        """Return the id of the test."""
        return self.name

    def declined(self) -> set[str]:
        """Return why it does not reach the target that has no loops, as ``Operator code: why``."""
        options = {"strategy": "fuse", "target": "portable", "tensor_io": True}
        report = rewriter.explain(self.model, **options)
        assert not report.reached
        reasons = [reason for decision in report.decisions for reason in decision.reasons]
        return {f"{r.op_type} {r.code.value}: {r.detail}" for r in reasons}

    @property
    def model(self) -> onnx.ModelProto:
        """The body as a SequenceMap over ``xs``."""
        declared = ", ".join(f"{self.result} {name}" for name in self.outputs)
        lists = ", ".join(f"{name}s" for name in self.outputs)
        mapped = (
            f"{lists} = SequenceMap (xs) "
            f"<body = one ({self.element} x) => ({declared}) {{ {self.nodes} }}>"
        )
        wanted = ", ".join(f"seq({self.result}) {name}s" for name in self.outputs)
        if self.stacked:
            shape = self.result.replace("[", "[B,").replace(",]", "]")
            wanted = ", ".join(f"{shape} {name}_all" for name in self.outputs)
            mapped += "".join(
                f" {name}_all = ConcatFromSequence <axis = 0, new_axis = 1> ({name}s)"
                for name in self.outputs
            )
        return onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : {self.opset}]> '
            f"g (seq({self.element}) xs) => ({wanted}) {{ {mapped} }}"
        )


def numbers(name: str, *values: int) -> str:
    """Return a constant vector of integers as text."""
    return f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> () "


def drawn(case: FlatCase, count: int, seed: int = 0) -> list[Array]:
    """Draw images of random sizes."""
    rng = np.random.default_rng(seed)
    kind, dims = re.fullmatch(r"(\w+)\[(.*)\]", case.element).groups()  # type: ignore[union-attr]
    dtype = _DTYPES[kind]
    found = []
    for _ in range(count):
        shape = [int(d) if d.isdigit() else _size(case, rng) for d in dims.split(",")]
        numbers = rng.uniform(case.low, case.high, shape)
        found.append(numbers > (case.low + case.high) / 2 if kind == "bool" else numbers)
    return [np.asarray(one).astype(dtype) for one in found]


def _size(case: FlatCase, rng: np.random.Generator) -> int:
    while (size := int(rng.integers(case.least, case.most + 1))) in case.never:
        continue
    return size


@functools.cache
def reached(case: FlatCase) -> Any:
    """Return the model that is rewritten for a target without loops, branches and sequences."""
    return rewriter.optimize(case.model, strategy="fuse", target="portable", tensor_io=True)


def loops_and_sequences(model: onnx.ModelProto) -> set[str]:
    """Return the operators of loops, branches and sequences that a model has."""
    found = {node.op_type for node in model.graph.node}
    return {name for name in found if name in _LEFT or "Sequence" in name}


def prove_flat(
    case: FlatCase, counts: Sequence[int] = (1, 4), feeds: Sequence[list[Array]] | None = None
) -> None:
    """Compare the rewritten model with the model as given, for batches of random sizes.

    Args:
        case: The body.
        counts: How many images each batch has.
        feeds: The batches, in place of random ones.
    """
    before, after = as_given(case), without_loops(case)
    batches = feeds or [drawn(case, count, seed) for seed, count in enumerate(counts)]
    for images in batches:
        assert_same(case, before(images), after(images), len(images))


def as_given(case: FlatCase) -> Callable[[list[Array]], Outputs]:
    """Return what runs the model as given."""
    session = backends.open_session(plain_expansion(case.model), "onnxruntime")
    return lambda images: session.run({"xs": images})


def without_loops(case: FlatCase) -> Callable[[list[Array]], Outputs]:
    """Return what runs the rewritten model; it has no loop."""
    after = reached(case)
    assert not loops_and_sequences(after)
    io = TensorIo.read(models.take(after).model)
    session = backends.open_session(after, "onnxruntime")
    return lambda images: outputs_as_lists(io, session.run({"xs": images}))


def assert_same(case: FlatCase, wanted: Outputs, given: Outputs, count: int) -> None:
    """Assert that each output of each image is the same, or within the tolerance."""
    assert wanted.keys() == given.keys()
    for name, values in wanted.items():
        assert len(values) == len(given[name]) == count
        for one, other in zip(values, given[name], strict=True):
            _assert_equal(case, one, other)


def _assert_equal(case: FlatCase, wanted: Array, given: Array) -> None:
    assert (wanted.shape, wanted.dtype) == (given.shape, given.dtype)
    if case.tolerance:
        most = case.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(given, wanted, rtol=0, atol=most)
    else:
        np.testing.assert_array_equal(given, wanted)


def prove_nothing(case: FlatCase) -> None:
    """Run the rewritten model for no image."""
    outputs = without_loops(case)([])
    assert all(len(value) == 0 for value in outputs.values())
