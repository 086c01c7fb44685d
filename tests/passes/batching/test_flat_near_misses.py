"""Bodies over images that are one edit away from those with a rule compute what they did."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter.backends import BackendError, open_session
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.compare import compare
from rewriter.proof.engines import plain_expansion
from tests.near_misses import near_misses
from tests.passes.batching.images import FlatCase, drawn

_EACH, _COUNT = 2, 3
_ROOMS = [
    importlib.import_module(f"tests.passes.batching.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("test_flat*.py"))
    if path != Path(__file__)
]
CASES = {
    f"{room.__name__.rpartition('.')[2]}-{case}": case
    for room in _ROOMS
    for case in getattr(room, "CASES", ())
    if isinstance(case, FlatCase)
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_near_miss_computes_what_it_did(name: str) -> None:
    """A model that does not reach the target is left as it was, with a reason."""
    case = CASES[name]
    images = {"xs": drawn(case, _COUNT)}
    drawn_near = near_misses(_undeclared(case.model), name)
    found = ((edit, near, _computed(near, images)) for edit, near in drawn_near)
    ran = (one for one in found if one[2] is not None)
    for edit, near, wanted in itertools.islice(ran, _EACH):
        try:
            after = rewriter.optimize(near, strategy="fuse", target="portable", tensor_io=True)
        except rewriter.TargetError:
            continue
        try:
            made = open_session(after).run(images)
        except BackendError as error:
            # onnxruntime makes a Reshape to computed sizes one to what is left, if that fits or not.
            assert not _agrees(near, images, wanted), f"{edit}: {error}\n{shown(near)}"
            continue
        given = outputs_as_lists(TensorIo.read(models.take(after).model), made)
        difference = compare(wanted, given)
        judged = difference.equal or not _agrees(near, images, wanted)
        assert judged, f"{edit}: {difference.message}\n{shown(near)}"


def shown(model: onnx.ModelProto) -> str:
    return str(onnx.printer.to_text(model))


def _undeclared(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that says nothing of the shapes of what it yields: they may be others."""
    (mapped,) = (node for node in model.graph.node if node.op_type == "SequenceMap")
    for value in mapped.attribute[0].g.output:
        value.type.tensor_type.ClearField("shape")
    for value in model.graph.output:
        kind = value.type
        tensor = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind
        tensor.tensor_type.ClearField("shape")
    return model


def _computed(near: onnx.ModelProto, images: Mapping[str, list[np.ndarray]]) -> Any:
    """Return what onnxruntime computes, one image after the other; None where it fails."""
    try:
        return open_session(plain_expansion(near)).run(images)
    except (BackendError, rewriter.RewriteError):
        return None


def _agrees(near: onnx.ModelProto, images: Mapping[str, list[np.ndarray]], wanted: Any) -> bool:
    """Whether ONNX's evaluator computes the same."""
    try:
        return compare(open_session(near, "reference").run(images), wanted).equal
    except BackendError:
        return False
