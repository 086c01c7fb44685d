"""Samples whose mapped inputs differ in length, and the map that cuts them from packed tensors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.lifted.build import Lifted
from tests.lifted.cases import Official

__all__ = ["Cut", "cut_first_axes", "feeds_of", "of_any_length", "split_inputs"]

_Run = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
_Samples = Sequence[Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Cut:
    """Samples of which some inputs differ in length.

    Attributes:
        inputs: The inputs that do.
        samples: The samples.
    """

    inputs: frozenset[str]
    samples: list[dict[str, np.ndarray]]


def cut_first_axes(samples: _Samples, mapped: Sequence[str], run: _Run) -> Cut | None:
    """Cut the first axis of mapped inputs to different lengths, as many as the operator bears.

    All inputs are cut if the single model still runs, otherwise those whose first axes have the
    size of one input's, otherwise one input; None if nothing can be cut.
    """
    longer = [n for n in mapped if samples[0][n].ndim and samples[0][n].shape[0] > 1]
    for names in _choices(samples[0], longer):
        cut = [_cut(sample, names, k) for k, sample in enumerate(samples)]
        if _runs(run, cut):
            return Cut(frozenset(names), cut)
    return None


def _choices(sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield sets of inputs, the largest first and each once."""
    alike = [tuple(n for n in names if sample[n].shape[0] == sample[m].shape[0]) for m in names]
    seen = set()
    for choice in itertools.chain([tuple(names)], alike, ((n,) for n in names)):
        if choice and choice not in seen:
            seen.add(choice)
            yield choice


def _cut(sample: Mapping[str, np.ndarray], names: Sequence[str], k: int) -> dict[str, np.ndarray]:
    return {n: a[: max(1, a.shape[0] - k)] if n in names else a for n, a in sample.items()}


def _runs(run: _Run, samples: _Samples) -> bool:
    try:
        for sample in samples:
            run(sample)
    except Exception:  # every engine has its own errors for a sample out of its domain
        return False
    return True


def of_any_length(official: Official, mapped: Sequence[str]) -> Official:
    """Return the test with no first dimension declared of mapped inputs, and none of outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(official.model)
    for value in model.graph.input:
        shape = value.type.tensor_type.shape
        if value.name in mapped and shape.dim:
            shape.dim[0].Clear()
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return dataclasses.replace(official, model=model)


def split_inputs(lifted: Lifted, cut: Cut) -> tuple[onnx.ModelProto, dict[str, list[str]]]:
    """Give the map its sequences by SplitToSequence, of packed or of stacked tensors.

    Returns:
        The model, and for each tensor of lengths the inputs of the body that it is for.
    """
    model = onnx.ModelProto()
    model.CopyFrom(lifted.model)
    graph = model.graph
    lengths: dict[tuple[int, ...], str] = {}
    served: dict[str, list[str]] = {}
    nodes = []
    inputs = []
    for value in graph.input:
        if not value.type.HasField("sequence_type"):
            inputs.append(value)
            continue
        inner = next(name for name, given in lifted.sequences.items() if given == value.name)
        element = value.type.sequence_type.elem_type.tensor_type
        shape = cut.samples[0][inner].shape
        tensor = f"{value.name}_tensor"
        operands, keepdims, dims = [tensor], 0, ["samples", *shape]
        if inner in cut.inputs:
            sizes = tuple(sample[inner].shape[0] for sample in cut.samples)
            name = lengths.setdefault(sizes, f"lengths_{len(lengths)}")
            served.setdefault(name, []).append(inner)
            operands, keepdims, dims = [tensor, name], 1, [f"{inner}_rows", *shape[1:]]
        inputs.append(helper.make_tensor_value_info(tensor, element.elem_type, dims))
        nodes.append(
            helper.make_node("SplitToSequence", operands, [value.name], axis=0, keepdims=keepdims)
        )
    inputs += [helper.make_tensor_value_info(n, TensorProto.INT64, ["samples"]) for n in served]
    nodes += list(graph.node)
    del graph.input[:], graph.node[:]
    graph.input.extend(inputs)
    graph.node.extend(nodes)
    return model, served


def feeds_of(
    lifted: Lifted, cut: Cut, served: Mapping[str, Sequence[str]], count: int
) -> dict[str, np.ndarray]:
    """Feed the first ``count`` samples."""
    fed = {given: cut.samples[0][name].copy() for name, given in lifted.tensors.items()}
    for name, given in lifted.sequences.items():
        parts = [sample[name] for sample in cut.samples[:count]]
        first = cut.samples[0][name]
        if name in cut.inputs:
            fed[f"{given}_tensor"] = np.concatenate([first[:0], *parts])
        else:
            none = np.empty((0, *first.shape), first.dtype)
            fed[f"{given}_tensor"] = np.stack(parts) if parts else none
    for given, names in served.items():
        sizes = [sample[names[0]].shape[0] for sample in cut.samples[:count]]
        fed[given] = np.array(sizes, np.int64)
    return fed
