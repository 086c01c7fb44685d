"""Other spellings of a model: each computes what the model computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

__all__ = ["SPELLINGS", "Spelling"]

Spelling = Callable[[onnx.ModelProto], onnx.ModelProto]
_HELD_AS_TENSOR = {"value_float", "value_floats", "value_int", "value_ints"}


def _copied(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _nodes(model: onnx.ModelProto) -> Iterator[NodeProto]:
    return (node for graph in _graphs(model.graph) for node in graph.node)


def _schema(node: NodeProto, model: onnx.ModelProto) -> onnx.defs.OpSchema | None:
    (opset,) = (o.version for o in model.opset_import if not o.domain)
    known = not node.domain and onnx.defs.has(node.op_type, opset)
    return onnx.defs.get_schema(node.op_type, opset) if known else None


def without_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Forget all declared dimensions, inside of bodies the ranks, too, but those of numbers."""
    model = _copied(model)
    for graph in _graphs(model.graph):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            tensor = value.type.tensor_type
            for dim in tensor.shape.dim:
                dim.Clear()
            if graph is not model.graph and tensor.shape.dim:
                tensor.ClearField("shape")
    return model


def without_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Take the names from all nodes."""
    model = _copied(model)
    for node in _nodes(model):
        node.ClearField("name")
    return model


def with_absent_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Write optional inputs that are left out at the end as absent ones."""
    model = _copied(model)
    for node in _nodes(model):
        schema = _schema(node, model)
        options = [] if schema is None else schema.inputs[len(node.input) :]
        for option in options:
            if option.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
                break
            node.input.append("")
    return model


def with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """Write each attribute that is left out and has a default."""
    model = _copied(model)
    for node in _nodes(model):
        schema = _schema(node, model)
        written = {a.name for a in node.attribute}
        for name, attribute in {} if schema is None else schema.attributes.items():
            if name not in written and attribute.default_value.name:
                node.attribute.append(attribute.default_value)
    return model


def without_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """Leave out each attribute that has its default value."""
    model = _copied(model)
    for node in _nodes(model):
        schema = _schema(node, model)
        defaults = {} if schema is None else schema.attributes
        kept = [a for a in node.attribute if not _is_default(a, defaults)]
        del node.attribute[:]
        node.attribute.extend(kept)
    return model


def _is_default(
    attribute: onnx.AttributeProto, defaults: dict[str, onnx.defs.OpSchema.Attribute]
) -> bool:
    if attribute.name not in defaults or attribute.HasField("g"):
        return False
    default = defaults[attribute.name].default_value
    if not default.name:
        return False
    same: bool = helper.get_attribute_value(default) == helper.get_attribute_value(attribute)
    return same


def with_initializers(model: onnx.ModelProto) -> onnx.ModelProto:
    """Hold the constants of each graph as its initializers."""
    model = _copied(model)
    for graph in _graphs(model.graph):
        outputs = {value.name for value in graph.output}
        for node in [*graph.node]:
            if node.op_type == "Constant" and node.output[0] not in outputs:
                graph.initializer.append(_tensor(node))
                graph.node.remove(node)
    return model


def _tensor(constant: NodeProto) -> TensorProto:
    (attribute,) = constant.attribute
    tensor = TensorProto()
    if attribute.name == "value":
        tensor.CopyFrom(attribute.t)
    else:
        assert attribute.name in _HELD_AS_TENSOR, attribute.name
        is_float = "float" in attribute.name
        held = helper.get_attribute_value(attribute)
        dtype = "float32" if is_float else "int64"
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.np.array(held, dtype)))
    tensor.name = constant.output[0]
    return tensor


_OF_ONE_TYPE = ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "Less", "Mod", "Pow")


def with_cast_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Cast constants to the type of the other operand, as onnxscript writes them."""
    model = _copied(model)
    (opset,) = (o.version for o in model.opset_import if not o.domain)
    constants = {n.output[0] for n in _nodes(model) if n.op_type == "Constant"}
    constants |= {value.name for graph in _graphs(model.graph) for value in graph.initializer}
    for number, graph in enumerate(_graphs(model.graph) if opset >= 15 else ()):
        for node in [*graph.node]:
            are_known = [name in constants for name in node.input]
            if node.op_type not in _OF_ONE_TYPE or are_known.count(True) != 1:
                continue
            known, other = node.input[are_known.index(True)], node.input[are_known.index(False)]
            made = f"{known}_like_{node.output[0]}_{number}"
            at = [*graph.node].index(node)
            graph.node.insert(at, helper.make_node("CastLike", [known, other], [made]))
            node.input[are_known.index(True)] = made
    return model


def with_copies(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put an Identity behind each node."""
    model = _copied(model)
    for number, graph in enumerate(_graphs(model.graph)):
        outputs = {value.name for value in graph.output}
        for node in [*graph.node]:
            at = [*graph.node].index(node)
            for place, name in enumerate(node.output):
                if not name or name in outputs:
                    continue
                made = f"{name}_of_{number}"
                node.output[place] = made
                graph.node.insert(at + 1, helper.make_node("Identity", [made], [name]))
    return model


def with_all_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Yield every value of the graph whose type and rank inference tells."""
    model = _copied(model)
    known = {value.name for value in model.graph.output}
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    made = {name for node in model.graph.node for name in node.output} - known
    told = (v for v in inferred.graph.value_info if v.type.tensor_type.HasField("shape"))
    model.graph.output.extend(v for v in told if v.name in made)
    return model


SPELLINGS: dict[str, Sequence[Spelling]] = {
    "no shapes": (without_shapes,),
    "every value an output": (with_all_outputs,),
    "copies": (with_copies,),
    "cast constants": (with_cast_constants,),
    "absent inputs": (with_absent_inputs,),
    "all attributes": (with_defaults, without_names),
    "no more than has to be": (without_defaults, with_initializers),
}
"""What is done to a model, in order."""
