"""Large models: how much memory a rewrite takes, and that it leaves weights where they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from rewriter.model_files.model_facts import OperatorCounts

MEGABYTE = 1 << 20
MOST_MEMORY = 300 * MEGABYTE
PATIENCE = 300  # seconds; only to end a process that hangs

# The peak of this process alone: what `resource` says may be that of the process it came from.
MEASURED = """
import json, sys
from rewriter.cli import main
status = main(sys.argv[1:])
lines = [line.split() for name in ("status", "io") for line in open(f"/proc/self/{name}")]
said = {words[0]: words[1] for words in lines if len(words) > 1}
peak, read = 1024 * int(said["VmHWM:"]), int(said["rchar:"])
print(json.dumps({"status": status, "peak": peak, "read": read}))
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what a process took is read from /proc"
)


def optimized(source: Path, out: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run ``seqmap optimize --no-verify`` in a process of its own.

    Returns:
        What ``--json`` says, and what the process took: its peak of memory and the bytes read.
    """
    words = ["optimize", str(source), str(out), "--no-verify", "--json", *options]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    record, end = json.JSONDecoder().raw_decode(ran.stdout)
    measured = json.loads(ran.stdout[end:])
    assert measured["status"] == 0, ran.stderr
    return record, measured


def counts(record: dict[str, Any], side: str) -> OperatorCounts:
    return OperatorCounts(record["report"]["operators"][side]["by_type"])


def value(name: str, *dims: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def save_with_map(
    path: Path,
    nodes: list[onnx.NodeProto],
    width: int,
    body: onnx.NodeProto,
    weights: list[onnx.TensorProto],
) -> None:
    """Write a model: the nodes, from ``x`` to ``last``, then a map over the rows of ``last``."""
    mapped = helper.make_graph([body], "row", [value("r", width)], [value("q", width)])
    end = [
        helper.make_node("SplitToSequence", ["last"], ["rows"], axis=0, keepdims=0),
        helper.make_node("SequenceMap", ["rows"], ["done"], name="map", body=mapped),
        helper.make_node("ConcatFromSequence", ["done"], ["y"], axis=0, new_axis=1),
    ]
    graph = helper.make_graph(
        [*nodes, *end], "large", [value("x", "B", width)], [value("y", "B", width)], weights
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def chain(op_types: list[str], *operands: str) -> list[onnx.NodeProto]:
    """Return nodes that each read the one before, from ``x`` to ``last``."""
    names = ["x", *(f"v{i}" for i in range(1, len(op_types))), "last"]
    return [
        helper.make_node(op_type, [names[i], *operands[i : i + 1]], [names[i + 1]], name=f"n{i}")
        for i, op_type in enumerate(op_types)
    ]


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["auto", "expand"])
def test_a_model_of_20000_nodes(tmp_path: Path, strategy: str) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    kinds = ["Relu", "Neg", "Abs", "Tanh"]
    nodes = chain([kinds[i % 4] for i in range(20_000)])
    save_with_map(source, nodes, 4, helper.make_node("Exp", ["r"], ["q"]), [])
    record, _ = optimized(source, out, "--strategy", strategy)
    (decision,) = record["report"]["maps"]
    assert decision["verdict"] == {"auto": "fused", "expand": "expanded"}[strategy]
    after = counts(record, "after")
    assert {kind: after.by_type[kind] for kind in (*kinds, "Exp")} == {
        **dict.fromkeys(kinds, 5_000),
        "Exp": 1,
    }
    assert after.loops == {"auto": 0, "expand": 1}[strategy]
    assert after.total < 20_020
    written = onnx.load(out)
    assert [node.name for node in written.graph.node[:20_000]] == [node.name for node in nodes]


@pytest.mark.long
def test_a_model_of_many_maps(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    body = helper.make_graph(
        [helper.make_node("Relu", ["r"], ["q"])], "row", [value("r", 4)], [value("q", 4)]
    )
    nodes, last = [], "x"
    for i in range(300):
        nodes += [
            helper.make_node("SplitToSequence", [last], [f"s{i}"], axis=0, keepdims=0),
            helper.make_node("SequenceMap", [f"s{i}"], [f"t{i}"], name=f"map{i}", body=body),
            helper.make_node("ConcatFromSequence", [f"t{i}"], [f"c{i}"], axis=0, new_axis=1),
            helper.make_node("Neg", [f"c{i}"], [f"v{i}"]),
        ]
        last = f"v{i}"
    graph = helper.make_graph(nodes, "many", [value("x", "B", 4)], [value(last, "B", 4)])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), source)
    record, _ = optimized(source, out)
    assert [entry["path"] for entry in record["report"]["maps"]] == [f"map{i}" for i in range(300)]
    after = counts(record, "after")
    assert (after.loops, after.sequences) == (0, 0)
    assert (after.by_type["Relu"], after.by_type["Neg"]) == (300, 300)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["auto", "expand"])
def test_08_weights_of_gigabytes_are_left_alone(tmp_path: Path, strategy: str) -> None:
    """The eighth release check: 2.5 GB of weights, under 300 MB of memory, no weight read."""
    source, weights = tmp_path / "in.onnx", tmp_path / "weights.bin"
    number, side = 25, 5_120
    size = 4 * side * side
    tensors = []
    for i in range(number):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[side, side])
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": weights.name, "offset": str(i * size), "length": str(size)}
        for key, text in entries.items():
            tensor.external_data.add(key=key, value=text)
        tensors.append(tensor)
    with weights.open("wb") as file:
        file.truncate(number * size)  # a hole: takes no place on the disk
    nodes = chain(["MatMul"] * (number - 1), *(tensor.name for tensor in tensors[:-1]))
    body = helper.make_node("MatMul", ["r", tensors[-1].name], ["q"])
    save_with_map(source, nodes, side, body, tensors)
    before = weights.stat()
    assert before.st_size > 2.5e9

    record, took = optimized(source, tmp_path / "out.onnx", "--strategy", strategy)

    assert took["peak"] < MOST_MEMORY
    assert took["read"] < 100 * MEGABYTE  # less than one of the weights; mostly Python's own files
    after = weights.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    assert after.st_blocks == before.st_blocks
    written = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert list(written.graph.initializer) == tensors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "out.onnx", "weights.bin"]
    assert counts(record, "before").loops == 1
