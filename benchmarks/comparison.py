"""What other tools make of maps and loops: ``python -m benchmarks.comparison``."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable

import onnx
import onnx_ir as ir
import onnxruntime
import onnxscript.optimizer
import onnxsim
import onnxslim

import rewriter
from rewriter.model_files.model_facts import count_operators

__all__ = ["MODELS", "TOOLS", "outcome", "table"]

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "comparison.md"
MODELS = (
    "demo/dy_hstack.onnx",
    "demo/resize_crop.onnxtxt",
    "demo/resnet50_preprocessing.onnxtxt",
    "exported/dy_embedding_bag.onnx",
    "exported/seqmap_mlp_ragged_rows.onnx",
    "exported/seqmap_issue23024_group_cummatmul.onnx",
    "exported/skl_knn_regressor.onnx",
    "exported/tf_map_fn_dense.onnx",
    "exported/ts_rows_linear_stack.onnx",
    "exported/ts_rnn_negative.onnx",
)


def _ort(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "optimized.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = path
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return onnx.load(path)


def _polygraphy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return what ``polygraphy surgeon sanitize --fold-constants --cleanup`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        given, new = (str(pathlib.Path(folder) / name) for name in ("given.onnx", "new.onnx"))
        onnx.save(model, given)
        command = [sys.executable, "-c", _POLYGRAPHY, "surgeon", "sanitize", given, "-o", new]
        options = ["--fold-constants", "--cleanup"]
        # onnxruntime, which it calls, leaves a file where it runs.
        words = [*command, *options]
        subprocess.run(words, check=True, cwd=folder, capture_output=True, timeout=300)
        return onnx.load(new)


_POLYGRAPHY = "import sys; from polygraphy.tools._main import main; sys.exit(main())"
TOOLS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "seqmap": rewriter.optimize,
    "onnxruntime": _ort,
    "onnxslim": lambda model: onnxslim.slim(model),
    "onnxsim": lambda model: onnxsim.simplify(model)[0],
    "onnxscript": lambda model: onnxscript.optimizer.optimize(model),
    "polygraphy": _polygraphy,
}


def outcome(model: onnx.ModelProto, tool: str) -> str:
    """Return how many maps and loops a model has before and after a tool."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quiet = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            after = TOOLS[tool](copy)
        left = count_operators(ir.from_proto(after)).loops
    except Exception:  # whatever another tool raises, it is what its user meets
        return "fails"
    before = count_operators(ir.from_proto(model)).loops
    if tool == "seqmap":
        verdicts = dict.fromkeys(one.verdict.value for one in rewriter.explain(model).decisions)
        return f"{', '.join(verdicts)}: {before} → {left}"
    return "kept" if left == before else f"{before} → {left}"


def table() -> str:
    """Return the outcomes as a table, and the versions."""
    lines = [f"| model | {' | '.join(TOOLS)} |", f"| --- |{' --- |' * len(TOOLS)}"]
    for name in MODELS:
        model = rewriter.load(ROOT / "models" / name)
        cells = [outcome(ir.to_proto(model), tool) for tool in TOOLS]
        lines.append(f"| {pathlib.Path(name).stem} | {' | '.join(cells)} |")
    versions = ", ".join(f"{tool} {importlib.metadata.version(tool)}" for tool in TOOLS)
    return "\n".join([*lines, "", f"{versions}."])


def main() -> None:
    """Write the table into the page."""
    head, rest = PAGE.read_text("utf-8").split("<!-- comparison -->\n")
    _, tail = rest.split("<!-- end -->")
    text = f"{head}<!-- comparison -->\n{table()}\n<!-- end -->{tail}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
