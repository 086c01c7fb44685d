"""What exporters return: programs of PyTorch and functions of onnxscript."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir as ir
import onnxscript
import pytest
from onnxscript import FLOAT
from onnxscript import opset18 as op

import seqmap
from tests.rewriter.cli_models import ROWS

PROGRAM = """
import onnx
import onnx_ir as ir
import onnxscript
import numpy as np
import seqmap
from typing import Any

model: onnx.ModelProto = seqmap.optimize("model.onnx", target="ort", require=["loop-free"])
same: onnx.ModelProto = seqmap.optimize(model)
result: seqmap.Result[onnx.ModelProto] = seqmap.rewrite(model, strategy="fuse", verify=True)
report: seqmap.Report = seqmap.explain("model.onnx", uniform="xs", input_shapes={"x": [2, None]})
check: seqmap.Check = seqmap.validate("model.onnx", model)
outputs = seqmap.run(model, {"x": np.zeros(3)})
with seqmap.session(model, device="cpu") as session:
    print(session.bind(y=np.zeros(2)).run({"x": np.zeros(3)}))
table: seqmap.Bench = seqmap.bench(model, sizes=[1, 2])
print(table.crossover, report.headline, str(check), check.ok, outputs, result.report, same)
print(seqmap.__version__, seqmap.passes.FuseSequenceMapPass, seqmap.__all__)
loaded: ir.Model = seqmap.optimize(seqmap.load("model.onnx"), verify=True)
predictor = seqmap.Predictor("model.onnx", batch_size=4)
print(predictor.predict([np.zeros(3)])[0].outputs)


def scripted(function: onnxscript.OnnxFunction[..., Any]) -> onnx.ModelProto:
    return seqmap.optimize(function)


class Program:  # as torch.onnx.ONNXProgram is typed
    model: ir.Model = loaded

    @property
    def model_proto(self) -> onnx.ModelProto:
        return model


exported: Program = seqmap.optimize(Program())
try:
    seqmap.save(seqmap.optimize(loaded, target="portable"), "out.onnx")
except seqmap.TargetError as error:
    print(error.report.to_html())
"""


class Program:
    """What is read of torch.onnx.ONNXProgram."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.exported_program = object()

    @property
    def model_proto(self) -> onnx.ModelProto:
        return ir.to_proto(self.model)


def test_a_program_gives_a_program() -> None:
    program = Program(ir.from_onnx_text(ROWS))
    before = program.model_proto
    after = seqmap.optimize(program)
    assert type(after) is Program
    assert after.exported_program is program.exported_program
    assert {node.op_type for node in after.model.graph} == {"Add", "Relu"}
    assert program.model_proto == before
    assert seqmap.explain(program).decisions[0].verdict == "fused"
    assert seqmap.validate(program, after).ok


def test_a_function_of_onnxscript_gives_a_message() -> None:
    @onnxscript.script()
    def stacked(x: FLOAT[...]) -> FLOAT[...]:
        rows = op.SplitToSequence(x, axis=0)
        return op.ConcatFromSequence(rows, axis=0)

    after = seqmap.optimize(stacked)
    assert isinstance(after, onnx.ModelProto)
    assert not {node.op_type for node in after.graph.node} & {"SplitToSequence"}


def mypy(program: str, folder: Path) -> str:
    """Return what mypy says of a program that uses seqmap as an installed package."""
    (folder / "program.py").write_text(program)
    root = Path(__file__).parents[2]
    words = ["--strict", "--follow-imports=silent", "--config-file=", "program.py"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *words, f"--cache-dir={root / '.mypy_cache'}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return checked.stdout


@pytest.mark.long
def test_a_typed_program_passes_mypy(tmp_path: Path) -> None:
    assert mypy(PROGRAM, tmp_path) == "Success: no issues found in 1 source file\n"


WRONG = {
    'seqmap.optimize("m.onnx", "out.onnx")': "call-overload",
    'seqmap.optimize("m.onnx", strategy="best")': "call-overload",
    'seqmap.optimize("m.onnx", target="ortt")': "call-overload",
    'seqmap.optimize("m.onnx", require=["no-loops"])': "list-item",
    'seqmap.session("m.onnx", engine="ort")': "call-arg",
    "seqmap.run(3, {})": "arg-type",
    "seqmap.optimize(3)": "call-overload",
    "seqmap.explain(b'model')": "arg-type",
    "seqmap.validate([1], {})": "arg-type",
}


@pytest.mark.long
def test_mypy_sees_what_is_wrong(tmp_path: Path) -> None:
    said = mypy("import seqmap\n" + "\n".join(WRONG), tmp_path)
    for number, code in enumerate(WRONG.values(), 2):
        assert f"program.py:{number}: error: " in said
        assert f"[{code}]" in next(x for x in said.splitlines() if f":{number}: error" in x)
