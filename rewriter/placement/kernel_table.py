"""The kernels of one execution provider: a table that ships with the package."""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.graph.opsets import schema_of

__all__ = ["MAIN", "SHORT_INT64", "TABLES", "Kernel", "KernelTable", "load_table"]

MAIN = "main"
"""The name that the documentation has for the types of an operator's first type variable."""
SHORT_INT64 = "int64 as int32"
"""What the head of a table says last where it holds of the device."""
TABLES = importlib.resources.files("rewriter") / "placement" / "tables"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One row: what a provider computes of an operator.

    Attributes:
        since: The version of the operator that it was registered for.
        until: The newest version that it serves, None where it serves `since` only.
        types: The element types that it takes by the name of a constraint or parameter; what is
            not named is not restricted.
        host_inputs: Positions of the inputs that it reads in the memory of the host.
        host_outputs: Positions of the outputs that it leaves in the memory of the host.
    """

    since: int
    until: int | None
    types: Mapping[str, frozenset[str]]
    host_inputs: frozenset[int]
    host_outputs: frozenset[int]

    def serves(self, version: int) -> bool:
        """Return whether it serves a version of the operator.

        onnxruntime takes a kernel with an open end for its own version only: whether a later
        form of the operator means the same, it does not know.
        """
        return version == self.since or (
            self.until is not None and self.since <= version <= self.until
        )


@dataclasses.dataclass(frozen=True)
class KernelTable:
    """All kernels of a provider.

    Attributes:
        provider: The name of the execution provider.
        runtime: The runtime and its version that the rows were read from.
        device: What a message calls the device.
        kernels: Rows by domain and operator.
        kind: ``list`` for operators from documentation, which tells neither versions nor memory;
            ``plugin`` for a provider that comes as a package of its own; otherwise empty.
        short_int64: Whether the device computes int64 in 32 bits, by the lower half.
    """

    provider: str
    runtime: str
    device: str
    kernels: Mapping[tuple[str, str], Sequence[Kernel]]
    kind: str = ""
    short_int64: bool = False

    def takes(self, node: ir.Node, version: int, dtype: ir.DataType | None) -> bool:
        """Return whether a kernel computes a node with a type for its type variable.

        Args:
            node: A node of the default domain.
            version: The version of its operator.
            dtype: The type, None for any.
        """
        served = [
            row for row in self.kernels.get(("", node.op_type), ()) if self._is_for(row, version)
        ]
        if dtype is None:
            return bool(served)
        name = dtype.name.lower()
        names = (*_main_names(node.op_type), MAIN)
        variables = [key for key in names if any(key in row.types for row in served)]
        return any(name in row.types.get(key, (name,)) for row in served for key in variables[:1])

    def _is_for(self, row: Kernel, version: int | None) -> bool:
        return self.kind == "list" or version is None or row.serves(version)

    def find(self, node: ir.Node, version: int | None) -> Kernel | str:
        """Return the kernel that computes a node, or why there is none.

        Args:
            node: The node, its values typed.
            version: The version of its operator, None where no schema tells.
        """
        rows = self.kernels.get((node.domain, node.op_type), ())
        if not rows:
            return f"no {self.device} kernel"
        served = [row for row in rows if self._is_for(row, version)]
        if not served:
            return f"no {self.device} kernel for version {version} of the operator"
        wanted = _types_by_constraint(node, version)
        for row in served:
            if all(wanted.get(name) in (None, *types) for name, types in row.types.items()):
                return row
        return f"no {self.device} kernel {_missing_types(served, wanted)}"


def _missing_types(rows: Sequence[Kernel], wanted: Mapping[str, str]) -> str:
    """Name the type of a node that no row takes, and those that some row takes instead."""
    for name, kind in wanted.items():
        known = frozenset[str]().union(*(row.types.get(name, {kind}) for row in rows))
        if kind not in known:
            return f"for {kind} (has {', '.join(sorted(known))})"
    return f"for {' and '.join(dict.fromkeys(wanted.values()))} together"


# Operators of other domains with the parameters, and their names of types, of ONNX's own of a
# version.
_LIKE_ONNX = {"DequantizeLinear": 19, "QuantizeLinear": 19}


def _types_by_constraint(node: ir.Node, version: int | None) -> dict[str, str]:
    """Return a node's types by the names under which a kernel may restrict them.

    Where several values have one constraint, onnxruntime looks at the first.
    """
    types: dict[str, str] = {}
    schema = None if version is None else schema_of(node.op_type, version, node.domain)
    if node.op_type in _LIKE_ONNX and node.domain:
        schema = schema_of(node.op_type, _LIKE_ONNX[node.op_type])
    if schema is None:
        return types
    for parameters, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        for position, value in enumerate(values):
            if value is None or not parameters or not (name := _type_name(value.type)):
                continue
            parameter = parameters[min(position, len(parameters) - 1)]
            for key in (parameter.type_str, parameter.name):
                types.setdefault(key, name)
    if main := next((types[key] for key in _main_names(node.op_type) if key in types), ""):
        types[MAIN] = main
    return types


_MAIN_NAMES = {"ConstantOfShape": ("T2",), "Identity": ("T", "V")}


def _main_names(op_type: str) -> tuple[str, ...]:
    """Return the type variables of an operator that may be the main one, in order.

    ConstantOfShape reads a shape, which has one type: what counts is the type that it makes. The
    variable of Identity is called V since it takes sequences.
    """
    return _MAIN_NAMES.get(op_type, ("T", "T1"))


def _type_name(value_type: ir.TypeProtocol | None) -> str:
    """Return a type as the tables write it: ``float``, ``seq int64``; empty where unknown."""
    if isinstance(value_type, ir.SequenceType):
        return _inside("seq", value_type)
    if isinstance(value_type, ir.OptionalType):
        return _inside("opt", value_type)
    if value_type is None or value_type.dtype == ir.DataType.UNDEFINED:
        return ""
    return value_type.dtype.name.lower()


def _inside(kind: str, outer: ir.SequenceType | ir.OptionalType) -> str:
    inner = _type_name(outer.elem_type)
    return f"{kind} {inner}" if inner else ""


@functools.cache
def load_table(name: str) -> KernelTable:
    """Return a table of the package, ``cuda`` for example.

    The first line of its file tells the provider, the runtime, the device, the kind of table and
    what is short; then come the rows.
    """
    head, *lines = (TABLES / f"{name}.csv").read_text("utf-8").splitlines()
    provider, runtime, device, kind, *short = next(csv.reader([head]))
    kernels: dict[tuple[str, str], list[Kernel]] = {}
    for row in csv.DictReader(lines):
        kernel = Kernel(
            since=int(row["since"] or 1),
            until=int(row["until"]) if row["until"] else None,
            types=_read_types(row["types"]),
            host_inputs=_positions(row["host_inputs"]),
            host_outputs=_positions(row["host_outputs"]),
        )
        kernels.setdefault((row["domain"], row["operator"]), []).append(kernel)
    return KernelTable(provider, runtime, device, kernels, kind, SHORT_INT64 in short)


def _read_types(text: str) -> dict[str, frozenset[str]]:
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {name: frozenset(types.split("|")) for name, _, types in pairs}


def _positions(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split()))
