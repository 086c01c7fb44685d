"""Models of exporters, rewritten for a device, are right there on every vector.

On CUDA one matrix product is not another's to the last bit; NVIDIA_TF32_OVERRIDE=0 keeps 24 bits.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter.backends import PlacementError, open_session
from rewriter.backends.session import has_nothing
from rewriter.errors import ModelError
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files.models import take
from rewriter.proof.compare import compare
from rewriter.targets import TargetError
from tests import software_gpu
from tests.test_pipelines import PIPELINES
from tests.test_zoo import BAD_SHAPES, EXPORTED, by_name

# Shapes that the exporter declared, and that the vectors do not have.
UNLIKE = {BAD_SHAPES, "ts_filter_negative", "ts_listcomp_relu"}
MODELS = [path for path in (*EXPORTED, *PIPELINES) if path.stem not in UNLIKE]


@pytest.fixture(
    params=[
        pytest.param("webgpu", marks=pytest.mark.full),
        pytest.param("cuda", marks=pytest.mark.cuda),
    ]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == "webgpu":
        if reason := software_gpu.why_not():
            pytest.skip(reason)
        software_gpu.start()
    elif os.environ.get("NVIDIA_TF32_OVERRIDE") != "0":
        pytest.skip("cuBLAS reads NVIDIA_TF32_OVERRIDE=0 when the process begins")
    return name


@pytest.mark.quick
@pytest.mark.parametrize("tensor_io", [False, True], ids=["given ends", "tensors"])
@pytest.mark.parametrize("path", MODELS, ids=by_name)
def test_a_rewritten_model_is_right_on_the_device(
    path: Path, tensor_io: bool, device: str
) -> None:
    target = f"onnxruntime-{device}"
    try:
        result = rewriter.rewrite(path, target=target, tensor_io=tensor_io)
    except (TargetError, ModelError) as error:
        pytest.skip(str(error))
    passed = TensorIo.read(take(result.model).model)
    try:
        session = open_session(result.model, device=device)
    except PlacementError as error:
        pytest.skip(str(error))
    for vector in sorted(path.parent.glob(f"{path.stem}.*npz")):
        expected = read_expected(vector, path)
        assert expected is not None
        feeds = read_feeds(vector, path)
        if device == "webgpu" and has_nothing(feeds):
            continue  # some of its kernels fail on tensors without elements: docs/guide/limits.md
        found = outputs_as_lists(passed, session.run(feeds))
        difference = compare(expected, found, rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"
