"""Prints, for models, where nodes are predicted to run and where onnxruntime places them.

``python -m tests.placed DEVICE MODEL ...``, in the environment of the provider: a JSON object by
the model's name. A session is made and never run, so a stand-in for the device is enough.
"""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import sys
import tempfile
from typing import Any

import onnx
import onnxruntime

from rewriter.backends.optimized_graph import all_nodes_of, before_placement, layer_settings
from rewriter.backends.providers import (
    load_libraries,
    provider_of,
    register_plugin,
    settings_of,
)
from rewriter.backends.session import BackendError
from rewriter.model_files.protos import from_proto
from rewriter.placement.kernel_table import load_table
from rewriter.placement.placing import place
from rewriter.target_table import find_target
from tests.kernel_tables import COPIES, _session


def actual(model: onnx.ModelProto, device: str) -> dict[str, Any]:
    """Return the nodes on the host by operator, those on the device, and copies by graph."""
    provider = provider_of(device)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    entries = {"session.record_ep_graph_assignment_info": "1", **settings_of(device)}
    entries |= layer_settings(model)
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    nodes: dict[bool, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "placed.onnx")
        options.optimized_model_filepath = path
        session = _session(model.SerializeToString(), options, provider)
        assert session.get_providers()[0] == provider
        graph = onnx.load(path).graph
        left = {node.name for node in all_nodes_of(graph)}
        for part in session.get_provider_graph_assignment_info():
            for node in part.get_nodes():
                # Casts that follow one another become one when they have been placed.
                if node.op_type != "Cast" or node.name in left:
                    nodes[part.ep_name == provider][node.op_type] += 1
    copies, inside = _copies(graph, False)
    return {
        "host": dict(sorted(nodes[False].items())),
        "device": dict(sorted(nodes[True].items())),
        "copies": copies,
        "copies_per_iteration": inside,
    }


def _copies(graph: onnx.GraphProto, is_inside: bool) -> tuple[int, int]:
    here = sum(node.op_type in COPIES for node in graph.node)
    copies, inside = here, here * is_inside
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                loops = is_inside or node.op_type in ("Loop", "Scan")
                more, more_inside = _copies(attribute.g, loops)
                copies, inside = copies + more, inside + more_inside
    return copies, inside


def predicted(model: onnx.ModelProto, table: str) -> dict[str, Any]:
    """Return the same as `actual`, predicted; and what the prediction cannot know."""
    optimized = model
    with contextlib.suppress(BackendError):  # the host lacks a kernel that the device has
        optimized = before_placement(
            copied(model), None, every_cast=load_table(table).kind == "plugin"
        )
    operators = collections.Counter(_operators(optimized.graph))
    found = place(from_proto(copied(model)), find_target(table))
    assert found is not None
    host = collections.Counter(one.op for one in found.host)
    told = {"note": found.note} if found.note else {}
    # Casts that become one of the next do not count.
    merged = (operators - host).total() - found.device
    device = operators - host - collections.Counter(Cast=merged)
    return told | {
        "host": dict(sorted(host.items())),
        "device": dict(sorted(device.items())),
        "copies": found.copies,
        "copies_per_iteration": found.copies_per_iteration,
    }


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in all_nodes_of(graph) if node.op_type != "Constant"]


def main(table: str, *paths: str) -> None:
    if load_table(table).kind == "plugin":
        from tests import software_gpu

        software_gpu.start()
        register_plugin(onnxruntime, provider_of(table))
    load_libraries(onnxruntime, provider_of(table))
    rows = {}
    for path in paths:
        model = onnx.load(path)
        if any(n.op_type == "SequenceMap" for n in all_nodes_of(model.graph)):
            # The report lists the body of a SequenceMap twice, before and after it is opened.
            with contextlib.suppress(BackendError):
                model = before_placement(model, None)
        try:
            real = actual(model, table)
        except Exception as error:
            rows[pathlib.Path(path).stem] = {"refused": str(error)}
            continue
        rows[pathlib.Path(path).stem] = {"actual": real, "predicted": predicted(model, table)}
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
