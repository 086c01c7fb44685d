"""What the consumers of a model accept, and the check of a model against it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from passes.builder import BATCHED_KEY
from passes.errors import RewriteError
from passes.graphs import default_opset, is_default_domain, node_paths
from passes.tensor_io import Refusal
from rewriter.report import SEQUENCE_OPERATORS, Report, Unreached

__all__ = [
    "REQUIREMENTS",
    "TARGETS",
    "Target",
    "TargetError",
    "check_target",
    "find_target",
    "version_warnings",
]


@dataclasses.dataclass(frozen=True)
class Target:
    """One consumer of models. SequenceMap is accepted by none: every rewrite removes it.

    Attributes:
        name: What ``target=`` and ``--target`` take.
        sequences: Whether values may be sequences.
        loop: Whether Loop is accepted.
        branch: Whether If is accepted.
        scan: Whether Scan is accepted.
        highest_opset: The newest default-domain opset accepted, ``None`` where none is known.
        highest_ir: The newest IR version accepted, ``None`` where none is known.
        backend: The backend that runs a model for this target.
        device: The device of that backend.
    """

    name: str
    sequences: bool
    loop: bool
    branch: bool
    scan: bool
    highest_opset: int | None = None
    highest_ir: int | None = None
    backend: str = "onnxruntime"
    device: str = "cpu"

    def accepts(self, op_type: str) -> bool:
        """Return whether nodes of a default-domain operator are accepted."""
        if op_type in SEQUENCE_OPERATORS:
            return self.sequences and op_type != "SequenceMap"
        return {"Loop": self.loop, "If": self.branch, "Scan": self.scan}.get(op_type, True)


_ROWS = (
    # name, sequences, loop, branch, scan, highest opset, highest IR, backend, device
    Target("onnxruntime", True, True, True, True, 26, 13),
    Target("onnxruntime-cuda", True, True, True, True, 26, 13, device="cuda"),
    # onnx-tensorrt lists no sequence operator; opset as documented for TensorRT 11.
    Target("tensorrt", False, True, True, True, 25, None, device="tensorrt"),
    # OpenVINO lowers some sequences at import, but only in certain patterns.
    Target("openvino", False, True, True, True, None, None, backend="openvino"),
    # tract imports Scan, but does not return from optimising one with a MatMul in its body.
    Target("tract", False, False, True, False, None, None, backend="tract"),
    Target("coreml", False, False, False, False, None, None, device="coreml"),
    Target("portable", False, False, False, False),
)
TARGETS = {row.name: row for row in _ROWS}

REQUIREMENTS = ("sequence-free", "loop-free")
_LOOPS = ("Loop", "Scan", "SequenceMap")


class TargetError(RewriteError):
    """The rewritten model is not what the target, or ``require``, asks for.

    Attributes:
        report: The report of the rewrite; ``report.unreached`` lists what is left.
    """

    def __init__(self, report: Report) -> None:
        first, more = report.unreached[0], len(report.unreached) - 1
        where = f"{first.node} ({first.op_type}): " if first.node else ""
        others = f" (and {more} more, see the report)" if more else ""
        wanted = " and ".join([f"target {report.target}", *report.require])
        super().__init__(
            f"{wanted} not reached: {where}{first.reason}{others}; remedy: {first.remedy}"
        )
        self.report = report


def find_target(name: str) -> Target:
    """Return the row of a target.

    Raises:
        RewriteError: There is no target of this name.
    """
    if name not in TARGETS:
        raise RewriteError(f"unknown target {name!r}; choose one of {', '.join(TARGETS)}")
    return TARGETS[name]


def check_target(
    model: ir.Model,
    target: str,
    require: Iterable[str] = (),
    refused: Iterable[Refusal] = (),
) -> list[Unreached]:
    """List what keeps a model from a target and from what is required beyond it.

    An opset or IR version above the target's is listed only beside something else; alone it is
    a warning, see ``version_warnings``.

    Args:
        model: The rewritten model, its values typed.
        target: Name of the target.
        require: Any of ``REQUIREMENTS``.
        refused: Inputs and outputs that were to become tensors and did not.

    Returns:
        One entry for each node, input and output in the way; empty when all is reached.

    Raises:
        RewriteError: There is no such target or requirement.
    """
    row = find_target(target)
    required = list(require)
    for name in required:
        if name not in REQUIREMENTS:
            raise RewriteError(
                f"unknown requirement {name!r}; choose among {', '.join(REQUIREMENTS)}"
            )
    stuck = list(refused)
    left = [
        *(_stuck(one) for one in stuck),
        *_interface(model, row, required, {(one.side, one.name) for one in stuck}),
        *_nodes(model, row, required),
    ]
    if left:
        left += [Unreached("", "", problem, _CONVERT) for problem in _versions(model, row)]
    return left


def version_warnings(model: ir.Model, target: str) -> list[str]:
    """Say where the model declares a newer opset or IR version than its target accepts.

    Raises:
        RewriteError: There is no such target.
    """
    return [f"{problem}; {_CONVERT}" for problem in _versions(model, find_target(target))]


_CONVERT = "convert the model to an older version before it is deployed"
_FUSE = "promise equal shapes with --uniform or --input-shape so that the map is fused"
_STACK = "use --tensor-io, or stack or concatenate the elements in the model"


def _versions(model: ir.Model, row: Target) -> Iterator[str]:
    opset = default_opset(model)
    if row.highest_opset is not None and opset > row.highest_opset:
        yield f"the model declares opset {opset}, {row.name} accepts at most {row.highest_opset}"
    if row.highest_ir is not None and model.ir_version > row.highest_ir:
        yield (
            f"the model declares IR version {model.ir_version}, {row.name} accepts at most "
            f"{row.highest_ir}"
        )


def _refuser(row: Target, required: list[str], *, sequences: bool, op_type: str) -> str:
    """Name who refuses a sequence value or an operator; ``""`` when nobody does."""
    if (sequences and not row.sequences) or not row.accepts(op_type):
        return f"target {row.name}"
    if sequences and "sequence-free" in required:
        return "sequence-free"
    if op_type in _LOOPS and "loop-free" in required:
        return "loop-free"
    return ""


def _stuck(refusal: Refusal) -> Unreached:
    reason = f"{refusal.side} {refusal.name!r} cannot be a tensor: it {refusal.reason}"
    return Unreached("", "", reason, refusal.remedy)


def _interface(
    model: ir.Model, row: Target, required: list[str], listed: set[tuple[str, str | None]]
) -> Iterator[Unreached]:
    refuser = _refuser(row, required, sequences=True, op_type="")
    sides = (("input", model.graph.inputs), ("output", model.graph.outputs))
    for side, values in sides:
        for value in values:
            if refuser and _holds_sequence(value.type) and (side, value.name) not in listed:
                yield Unreached(
                    "",
                    "",
                    f"{side} {value.name!r} is a sequence, which {refuser} rules out",
                    "use --tensor-io to pass it as a tensor",
                )


def _nodes(model: ir.Model, row: Target, required: list[str]) -> Iterator[Unreached]:
    for node, path in node_paths(model).items():
        op_type = node.op_type if is_default_domain(node) else ""
        made = [value.name for value in node.outputs if _holds_sequence(value.type)]
        sequences = bool(made) or op_type in SEQUENCE_OPERATORS
        asked = [r for r in required if r != "loop-free" or BATCHED_KEY not in node.metadata_props]
        refuser = _refuser(row, asked, sequences=sequences, op_type=op_type)
        if not refuser:
            continue
        controls = op_type in (*_LOOPS, "If")
        if made and op_type not in SEQUENCE_OPERATORS:
            reason = f"its output {made[0]!r} is a sequence, which {refuser} rules out"
        else:
            reason = f"{refuser} rules out {op_type}"
        yield Unreached(path, node.op_type, reason, _FUSE if controls else _STACK)


def _holds_sequence(value_type: ir.TypeProtocol | None) -> bool:
    if isinstance(value_type, ir.OptionalType):
        return _holds_sequence(value_type.elem_type)
    return isinstance(value_type, ir.SequenceType)
