"""A map whose body is an official node test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from passes.loops.forms import SPLITTABLE
from tests.lifted.cases import CONSTANT, MAPPED, Official, Role, stable_hash

__all__ = ["Lifted", "Sample", "build", "joins_rows"]

Sample = Mapping[str, np.ndarray]
_Dims = list[int | str] | None


@dataclasses.dataclass(frozen=True)
class Lifted:
    """A model with one SequenceMap over the graph of an official test.

    Attributes:
        model: The model.
        sequences: Its sequence inputs, by the input of the body that reads them.
        tensors: Its tensor inputs, by the input of the official test.
    """

    model: onnx.ModelProto
    sequences: Mapping[str, str]
    tensors: Mapping[str, str]

    def feeds(
        self, samples: Sequence[Sample], count: int
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Feed the first ``count`` samples, as copies: onnxruntime may write to what it is fed."""
        fed: dict[str, np.ndarray | list[np.ndarray]] = {}
        for name, given in self.sequences.items():
            fed[given] = [sample[name].copy() for sample in samples[:count]]
        for name, given in self.tensors.items():
            fed[given] = samples[0][name].copy()
        return fed


def build(
    official: Official,
    roles: Mapping[str, Role],
    samples: Sequence[Sample],
    results: Sequence[Sequence[np.ndarray]],
    *,
    static: bool,
    stacks: bool,
) -> Lifted:
    """Make the map over an official test.

    By a fixed hash, a shared input is an input of the map or captured, and a constant is an
    initializer of the body, a Constant of the body or a captured initializer.

    Args:
        official: The test.
        roles: The role of each of its inputs, at least one of them mapped.
        samples: The samples, of which the declared shapes must be true.
        results: For each sample the outputs, of which the declared shapes must be true.
        static: Declare dimensions as numbers where all samples agree, otherwise as symbols.
        stacks: Join the results whose type onnxruntime has no SplitToSequence for, with
            ConcatFromSequence; as a sequence they cannot leave any map without a loop.
    """
    graph = official.model.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    main, body = onnx.GraphProto(name=official.name), onnx.GraphProto(name="body")
    operands, sequences, tensors = [], {}, {}
    for name, role in roles.items():
        array = official.inputs[name]
        dims = _dims(name, [sample[name].shape for sample in samples], static=static)
        place = stable_hash(f"{official.name}/{name}")
        if role == CONSTANT:
            tensor = numpy_helper.from_array(array, name)
            if place % 3 == 0:
                main.initializer.append(tensor)
            elif place % 3 == 1:
                body.initializer.append(tensor)
            else:
                body.node.append(helper.make_node("Constant", [], [name], value=tensor))
        elif role == MAPPED:
            sequences[name] = f"mapped_{name}"
            operands.append(sequences[name])
            main.input.append(_sequence(sequences[name], types[name], dims))
            body.input.append(helper.make_tensor_value_info(name, types[name], dims))
        else:
            captured = place % 2 == 0
            tensors[name] = name if captured else f"shared_{name}"
            main.input.append(helper.make_tensor_value_info(tensors[name], types[name], dims))
            if not captured:
                operands.append(tensors[name])
                body.input.append(helper.make_tensor_value_info(name, types[name], dims))
    names: list[str] = []
    joins: list[onnx.NodeProto] = []
    body.node.extend(graph.node)
    body.initializer.extend(graph.initializer)
    for i, output in enumerate(graph.output):
        name = output.name
        dims = _dims(name, [sample[i].shape for sample in results], static=static)
        body.output.append(helper.make_tensor_value_info(name, types[name], dims))
        names.append(f"result_{name}")
        if stacks and ir.DataType(types[name]) not in SPLITTABLE and dims is not None:
            joined = f"joined_{name}"
            alike = _have_one_shape(results, i)
            attributes = {"axis": 0, "new_axis": int(alike)}
            joins.append(
                helper.make_node("ConcatFromSequence", names[-1:], [joined], **attributes)
            )
            whole = ["samples", *dims] if alike else [f"{name}_rows", *dims[1:]]
            main.output.append(helper.make_tensor_value_info(joined, types[name], whole))
        else:
            main.output.append(_sequence(names[-1], types[name], dims))
    main.node.append(helper.make_node("SequenceMap", operands, names, name="map", body=body))
    main.node.extend(joins)
    model = onnx.ModelProto()
    model.CopyFrom(official.model)
    model.graph.CopyFrom(main)
    return Lifted(model, sequences, tensors)


def _have_one_shape(results: Sequence[Sequence[np.ndarray]], output: int) -> bool:
    return len({sample[output].shape for sample in results}) == 1


def joins_rows(lifted: Lifted, results: Sequence[Sequence[np.ndarray]]) -> list[bool]:
    """For each output of the map, whether it is the rows of all samples in one tensor."""
    return [
        value.type.HasField("tensor_type") and not _have_one_shape(results, i)
        for i, value in enumerate(lifted.model.graph.output)
    ]


def _dims(name: str, shapes: Sequence[tuple[int, ...]], *, static: bool) -> _Dims:
    """Dimensions that are true of all shapes; symbols where they differ, None without a rank."""
    if len({len(shape) for shape in shapes}) != 1:
        return None
    return [
        sizes[0] if static and len(set(sizes)) == 1 else f"{name}_{axis}"
        for axis, sizes in enumerate(zip(*shapes, strict=True))
    ]


def _sequence(name: str, elem_type: int, dims: _Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, elem_type, dims)
