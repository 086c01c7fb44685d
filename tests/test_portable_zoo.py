"""Every model of the zoo for the target ``portable``: right without samples too, or refused."""

from __future__ import annotations

import dataclasses
import pathlib

import onnx_ir as ir
import pytest

from rewriter import cli
from rewriter.model_files import on_disk
from rewriter.model_files.model_facts import count_operators

pytestmark = pytest.mark.long

MODELS = pathlib.Path(__file__).parents[1] / "models"
PATHS = {
    path.stem: path
    for folder in ("text", "exported", "demo")
    for path in sorted((MODELS / folder).glob("*.onnx*"))
    if path.suffix in (".onnx", ".onnxtxt")
}
UNROLL = "make the number of iterations a small constant"


@dataclasses.dataclass(frozen=True)
class Refused:
    """What is said of a model that is refused.

    Attributes:
        node: The node that stands in the way, or what stands there instead.
        why: Words of the reason.
        remedy: Words of the remedy; empty where none is named.
        options: What the remedy names and does, where a promise can: nothing is refused then.
    """

    node: str
    why: str
    remedy: str
    options: tuple[str, ...] = ()


REFUSED = {
    "seqmap_issue23024_group_cummatmul": Refused(
        "Scan_1/Loop (Loop)", "it is 'SequenceMap_2/body/Scan_1' for all samples at once", UNROLL
    ),
    "seqmap_outer_scope_onnx4892": Refused(
        "output 'ys'",
        "it has elements of unknown rank",
        "--input-shape xs=d0 if the elements of xs have 1 dimension (tried: target reached)",
        ("xs=?,?",),
    ),
    "ts_embedding_bag_weights_scripted": Refused(
        "/bags/If (If)",
        "its branches may yield different kinds of '/bags/If_output_0'",
        "make its condition a constant",
        ("ids=12", "weights=12"),
    ),
    "ts_rnn_negative": Refused(
        "/Loop (Loop)",
        "'/Loop' keeps it: /Loop/body//Tanh (Tanh) recurrence: 'h.11' depends on its own past",
        "--input-shape x=N,8 with numbers for N (tried: target reached)",
        ("x=5,8",),
    ),
    "ts_zip_matmul_badshapes": Refused(
        "output 'c'",
        "it has elements that may differ along axes 0 and 1",
        "concatenate the elements in the model",
    ),
}


def optimize(name: str, out: pathlib.Path, shapes: tuple[str, ...] = ()) -> int:
    """Rewrite a model with all its sequences promised to be uniform, and verify it."""
    inputs = on_disk.load(PATHS[name]).graph.inputs
    uniform = [v.name for v in inputs if isinstance(v.type, ir.SequenceType) and v.name]
    options = [("--uniform", name) for name in uniform]
    options += [("--input-shape", shape) for shape in shapes]
    words = [word for pair in options for word in pair]
    return cli.main(
        ["optimize", str(PATHS[name]), str(out), "--target", "portable", "--tensor-io", *words]
    )


def assert_is_portable(out: pathlib.Path) -> None:
    counts = count_operators(on_disk.load(out))
    assert (counts.loops, counts.sequences) == (0, 0)
    assert "If" not in counts.by_type


@pytest.mark.parametrize("name", [name for name in PATHS if name not in REFUSED])
def test_a_model_is_portable_and_verified(name: str, tmp_path: pathlib.Path) -> None:
    assert optimize(name, tmp_path / "out.onnx") == 0
    assert_is_portable(tmp_path / "out.onnx")


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_with_a_remedy(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = REFUSED[name]
    assert optimize(name, tmp_path / "out.onnx") == 4
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().err
    assert said.startswith(f"seqmap: error: target portable not reached: {refused.node}")
    reason, _, remedy = said.partition("; remedy: ")
    assert refused.why in reason
    assert refused.remedy in remedy
    assert bool(refused.remedy) == bool(remedy)


@pytest.mark.parametrize("name", [name for name, one in REFUSED.items() if one.options])
def test_the_promise_that_the_remedy_names_is_enough(name: str, tmp_path: pathlib.Path) -> None:
    assert optimize(name, tmp_path / "out.onnx", REFUSED[name].options) == 0
    assert_is_portable(tmp_path / "out.onnx")
