"""Writes the tables of kernels that ship with the package: ``python -m tests.kernel_tables cuda``.

Operators, versions and types are what the installed runtime lists. Which inputs and outputs a
kernel keeps on the host no list tells: each operator's own ONNX node tests are built between
nodes that only the CPU computes, and where onnxruntime then inserts no copy, the value is on the
host.

``cuda`` has to run where onnxruntime-gpu is imported (`tests.stand_in_cuda`), ``webgpu`` where
onnxruntime-ep-webgpu finds an adapter (`tests.software_gpu`). ``webgpu-int64`` is made of the table
``webgpu``: which kernels take int64, too, by the provider's option, no list tells; the adapter is
asked for each.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import importlib.metadata
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as bindings

from rewriter.backends.providers import provider_of, register_plugin, settings_of
from rewriter.placement.kernel_table import SHORT_INT64

TABLES = pathlib.Path(__file__).parents[1] / "rewriter" / "placement" / "tables"
COLUMNS = ("domain", "operator", "since", "until", "types", "host_inputs", "host_outputs")
OPEN = 2**31 - 1
OPTIONAL_SINCE = 15
DOMAINS = ("", "ai.onnx.ml", "com.microsoft")
# The operators that copy between host and device stand in no model that is given.
COPIES = ("MemcpyFromHost", "MemcpyToHost")
# Operators without a node test of their own that kernels serve.
FURTHER = (
    "g (seq(float[2]) xs, int64 i) => (float[2] y) { y = SequenceAt (xs, i) }",
    "g (seq(float[2]) xs, int64 i) => (seq(float[2]) ys) { ys = SequenceErase (xs, i) }",
    "g (seq(float[2]) xs) => (int64 n) { n = SequenceLength (xs) }",
    "g (seq(float[2]) xs) => (float[N] y) { y = ConcatFromSequence <axis = 0> (xs) }",
    "g (float[2] a, float[2] b) => (seq(float[2]) ys) { ys = SequenceConstruct (a, b) }",
    "g (int64[2] i, int64 d, int64[2] v) => (int64[2,N] y) { y = OneHot (i, d, v) }",
    # As older versions spell them.
    "g (float[2] x) => (float[1,2] y) { y = Unsqueeze <axes = [0]> (x) }",
    "g (float[1,2] x) => (float[2] y) { y = Squeeze <axes = [0]> (x) }",
    "g (float[1,2] x) => (float[2] y) { y = ReduceSum <axes = [0], keepdims = 0> (x) }",
)
# onnxruntime takes no older opset.
OLDEST = 7
Positions = tuple[set[int], set[int]]


def kernels(provider: str) -> dict[tuple[str, str, int, int], list[dict[str, set[str]]]]:
    """Return the type constraints of each kernel, by domain, operator and versions."""
    listed = (
        bindings.get_registered_ep_kernel_defs(provider)
        if provider.startswith("WebGpu")
        else bindings.get_all_opkernel_def()
    )
    found = collections.defaultdict(list)
    for one in listed:
        if one.provider != provider or one.domain not in DOMAINS or one.op_name in COPIES:
            continue
        types = {name: {_short(t) for t in given} for name, given in one.type_constraints.items()}
        if types not in found[one.domain, one.op_name, *one.version_range]:
            found[one.domain, one.op_name, *one.version_range].append(types)
    return {key: _merged(rows) for key, rows in found.items()}


def _short(name: str) -> str:
    """Write ``seq(tensor(int64))`` as ``seq int64``."""
    return name.replace("tensor(", "").replace("(", " ").replace(")", "")


def _merged(rows: list[dict[str, set[str]]]) -> list[dict[str, set[str]]]:
    """Join kernels that differ in one constraint only, until none do."""
    for i, one in enumerate(rows):
        for j, other in enumerate(rows[:i]):
            if one.keys() != other.keys():
                continue
            differing = [name for name in one if one[name] != other[name]]
            if len(differing) <= 1:
                joined = {name: one[name] | other[name] for name in one}
                rest = [row for k, row in enumerate(rows) if k not in (i, j)]
                return _merged([*rest, joined])
    return rows


def host_positions(
    provider: str, versions: dict[str, set[int]]
) -> dict[tuple[str, int], Positions]:
    """Return which inputs and outputs the kernels of each operator and version keep on the host."""
    found: dict[tuple[str, int], Positions] = {}
    for model in _single_nodes():
        op_type = model.graph.node[0].op_type
        for since in versions.get(op_type, ()):
            try:
                inputs, outputs = probe(model, since, provider)
            except Exception:  # not a model of this version, or not one that the runtime takes
                continue
            known = found.setdefault((op_type, since), (set(), set()))
            known[0].update(inputs)
            known[1].update(outputs)
    return found


def _single_nodes() -> Iterator[onnx.ModelProto]:
    from onnx.backend.test.case.node import collect_testcases

    for text in FURTHER:
        yield onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 16]> {text}')
    for case in collect_testcases(None):
        if case.model is not None and len(case.model.graph.node) == 1:
            yield case.model


def probe(
    model: onnx.ModelProto, since: int, provider: str
) -> tuple[Iterable[int], Iterable[int]]:
    """Return the positions on the host of a model's one node; all its neighbours are on the CPU.

    Raises:
        Exception: The runtime refuses the model.
        LookupError: The node is not on the device.
    """
    built = _between_cpu_nodes(model, max(since, OPTIONAL_SINCE))
    written = placed_graph(built, provider)
    made = {name: node for node in written.node for name in node.output}
    (node,) = (node for node in written.node if node.name == "probed")
    read = {name for one in written.node if one.op_type == "Optional" for name in one.input}
    inputs = [i for i, x in enumerate(node.input) if x and made[x].op_type not in COPIES]
    outputs = [i for i, y in enumerate(node.output) if y and y in read]
    return inputs, outputs


def _between_cpu_nodes(given: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Put Optional and OptionalGetElement, which no device has, around the node of a model."""
    model = onnx.ModelProto()
    model.CopyFrom(given)
    model.ir_version = min(model.ir_version, 10)
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", opset))
    node = model.graph.node.pop()
    node.name = "probed"
    before, after = list[onnx.NodeProto](), list[onnx.NodeProto]()
    renamed = {x: f"{x}_given" for x in node.input if x}
    for name, inner in renamed.items():
        before += _through_optional(name, inner)
    for i, name in enumerate(node.input):
        node.input[i] = renamed.get(name, "")
    for i, name in enumerate(node.output):
        if name:
            node.output[i] = f"{name}_made"
            after += _through_optional(f"{name}_made", name)
    model.graph.node.extend([*before, node, *after])
    return model


def _through_optional(name: str, result: str) -> list[onnx.NodeProto]:
    return [
        onnx.helper.make_node("Optional", [name], [f"{name}_optional"]),
        onnx.helper.make_node("OptionalGetElement", [f"{name}_optional"], [result]),
    ]


def takes_type(
    given: onnx.ModelProto, version: int, variable: str, type_name: str, device: str
) -> bool:
    """Return whether a device takes the one node of a model with a type for a type variable."""
    model = onnx.ModelProto()
    model.CopyFrom(given)
    model.ir_version = min(model.ir_version, 10)
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", version))
    (node,) = model.graph.node
    node.name = "probed"
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:
        return False
    typed = [(node.input, schema.inputs), (node.output, schema.outputs)]
    named = {
        name
        for names, parameters in typed
        for i, name in enumerate(names)
        if parameters and parameters[min(i, len(parameters) - 1)].type_str == variable
    }
    typed_values = [v for v in (*model.graph.input, *model.graph.output) if v.name in named]
    for value in typed_values:
        value.type.tensor_type.elem_type = getattr(onnx.TensorProto, type_name.upper())
    if not typed_values:
        return False
    try:
        placed_graph(model, provider_of(device), settings_of(device))
    except Exception:  # not a model of this version, or one that the device does not take
        return False
    return True


def write_int64(name: str, base: str) -> None:
    """Write the table of a device whose settings add int64, from the table without them."""
    head, *lines = (TABLES / f"{base}.csv").read_text("utf-8").splitlines()
    models = collections.defaultdict(list)
    for model in _single_nodes():
        models[model.graph.node[0].op_type].append(model)
    with (TABLES / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(f"{head},{SHORT_INT64}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in csv.DictReader(lines):
            since = max(int(row["since"]), OLDEST)
            types = {}
            for one in row["types"].split(";"):
                variable, _, listed = one.partition("=")
                types[variable] = set(listed.split("|"))
                if row["domain"] or "int64" in types[variable]:
                    continue
                taken = (
                    takes_type(model, since, variable, "int64", name)
                    for model in models[row["operator"]]
                )
                types[variable] |= {"int64"} if any(taken) else set()
            writer.writerow(row | {"types": _type_text(types)})


def placed_graph(
    model: onnx.ModelProto, provider: str, settings: Mapping[str, str] | None = None
) -> onnx.GraphProto:
    """Return a model's graph with the copies that onnxruntime inserts, not optimized.

    Raises:
        LookupError: The node called "probed" is not on the device.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "placed.onnx")
        options.optimized_model_filepath = path
        for key, value in (settings or {}).items():
            options.add_session_config_entry(key, value)
        session = _session(model.SerializeToString(), options, provider)
        for part in session.get_provider_graph_assignment_info():
            if part.ep_name != provider and any(n.name == "probed" for n in part.get_nodes()):
                raise LookupError(f"{provider} does not take the node")
        return onnx.load(path).graph


def _session(data: bytes, options: Any, provider: str) -> Any:
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == provider]
    if devices:
        options.add_provider_for_devices(devices[:1], {})
        return onnxruntime.InferenceSession(data, options, enable_fallback=False)
    return onnxruntime.InferenceSession(
        data, options, providers=[provider, "CPUExecutionProvider"]
    )


def write(name: str, provider: str, runtime: str, device: str, kind: str = "") -> None:
    """Write one table."""
    rows = kernels(provider)
    versions = collections.defaultdict(set)
    for domain, operator, since, until in rows:
        if not domain and until >= OPTIONAL_SINCE:
            versions[operator].add(since)
    on_host = host_positions(provider, versions)
    path = TABLES / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([provider, runtime, device, kind])
        writer.writerow(COLUMNS)
        for (domain, operator, since, until), types in sorted(rows.items()):
            inputs, outputs = _nearest(on_host, operator, since) if not domain else (set(), set())
            for one in sorted(_type_text(row) for row in types):
                ends = "" if until == OPEN else until
                told = [" ".join(map(str, sorted(which))) for which in (inputs, outputs)]
                writer.writerow([domain, operator, since, ends, one, *told])
    print(path, path.stat().st_size, "bytes", len(rows), "kernels")  # noqa: T201


def _type_text(types: dict[str, set[str]]) -> str:
    return ";".join(f"{name}={'|'.join(sorted(types[name]))}" for name in sorted(types))


def _nearest(found: dict[tuple[str, int], Positions], operator: str, since: int) -> Positions:
    """Return what was found for a version, or for the nearest one that could be probed."""
    known = [version for name, version in found if name == operator]
    if not known:
        return set(), set()
    return found[operator, min(known, key=lambda version: abs(version - since))]


def main(name: str) -> None:
    if name.startswith("webgpu"):
        from tests import software_gpu

        software_gpu.start()
        register_plugin(onnxruntime, "WebGpuExecutionProvider")
    if settings_of(name):
        write_int64(name, "webgpu")
    elif name == "webgpu":
        package = "onnxruntime-ep-webgpu"
        version = f"{package} {importlib.metadata.version(package)}"
        write(name, "WebGpuExecutionProvider", version, "WebGPU", "plugin")
    else:
        version = f"onnxruntime-gpu {onnxruntime.__version__}"
        write(name, "CUDAExecutionProvider", version, "CUDA")


if __name__ == "__main__":
    with warnings.catch_warnings(), contextlib.suppress(KeyboardInterrupt):
        warnings.simplefilter("ignore")
        main(sys.argv[1])
