"""The judge: onnx's reference evaluator, where it departs from the specification put right."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator as OnnxEvaluator
from onnx.reference.op_run import OpFunctionContextDependant, OpRun, RuntimeContextError

from passes.errors import RewriteError
from rewriter.evaluator.mapped_weights import mapped, with_small_weights
from rewriter.evaluator.reference_edges import EDGE_OPERATORS
from rewriter.evaluator.reference_loops import LOOP_OPERATORS
from rewriter.evaluator.reference_maps import Map
from rewriter.evaluator.reference_operator import EvaluationError, Operator, Value
from rewriter.evaluator.reference_ops import BASIC_OPERATORS
from rewriter.evaluator.reference_pad import Pad
from rewriter.evaluator.reference_recurrent import GRU, LSTM, RNN
from rewriter.evaluator.reference_resize import Resize
from rewriter.evaluator.reference_sequences import SEQUENCE_OPERATORS
from rewriter.evaluator.reference_types import typed_graph
from rewriter.evaluator.run_watch import watched
from rewriter.model_files import external_data, files, graphsurgeon, models, protos
from rewriter.model_files.fields import check_fields

__all__ = ["EvaluationError", "ReferenceEvaluator", "add_operators"]

# Under this name results go that a node leaves out; no value can have it.
_OMITTED = "\0"


class ReferenceEvaluator(OnnxEvaluator):
    """Runs a model node by node in numpy, by the words of the specification.

    It is onnx's evaluator with these put right:

    1. SequenceMap, SequenceAt, SequenceInsert, SequenceErase, ConcatFromSequence and
       SplitToSequence; Optional and what reads it; If, Loop, and Scan of opset 9 and later.
    2. A body reads of the enclosing graphs what it captures and nothing else.
    3. Model-local functions: in any order, with overloads, defaults of attributes, and calls
       that leave out inputs or attributes.
    4. A result that a node leaves out is not an input that another one leaves out.
    5. Function operators whose definition depends on the types of their inputs.

    A value is an ``ndarray``, a list of them for a sequence, None for an absent optional.
    """

    def __init__(
        self,
        proto: Any,
        opsets: dict[str, int] | None = None,
        functions: Iterable[onnx.FunctionProto] | None = None,
        verbose: int = 0,
        new_ops: Sequence[type[OpRun]] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Make a model ready to run.

        Args:
            proto: A model: a path, an ``onnx.ModelProto``, an ``onnx_ir.Model`` or an
                ``onnx_graphsurgeon.Graph``; or a part of one, as onnx's evaluator takes it.
            opsets: Needed with an ``onnx.GraphProto`` only.
            functions: The model-local functions that a part of a model may call.
            verbose: How much is printed, as onnx's evaluator has it.
            new_ops: Operators that take the place of those known.
            folder: Where the weights of an ``onnx.ModelProto`` lie that are in other files.

        Raises:
            EvaluationError: If weights are missing, or a node can never run, whatever is wrong.
            ModelError: If the file cannot be read.
            NotImplementedError: If an operator is not known.
        """
        proto, found = _message(proto)
        self._folder = folder = folder or found
        if folder is not None and isinstance(proto, onnx.ModelProto):
            proto = with_small_weights(proto, folder)
        source = proto
        self._weights: list[Any] | None = None
        if isinstance(source, onnx.ModelProto):
            source, opsets, functions = typed_graph(proto), _opsets(proto), proto.functions
            self._weights = [*proto.graph.initializer, *proto.graph.sparse_initializer]
        self._functions = {(f.domain, f.name, f.overload): f for f in functions or ()}
        with _errors_named():
            super().__init__(
                source, opsets, None, verbose, [*(new_ops or ()), *_added, *_OPERATORS]
            )
        self.proto_ = proto

    def retrieve_external_data(self, initializer: onnx.TensorProto) -> np.ndarray:
        """Return large weights from their file; refuse them where the file is not known."""
        if self._folder is not None:
            return mapped(initializer, self._folder)
        raise EvaluationError(
            f"the weights {initializer.name!r} lie in another file: give the path of the model"
        )

    def run(
        self,
        output_names: Sequence[str] | None,
        feed_inputs: dict[str, Value],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Run the model once.

        Args:
            output_names: Which outputs, None for all.
            feed_inputs: A value for every input; a list of arrays for a sequence, None for an
                absent optional.
            args: What onnx's evaluator takes.
            kwargs: The same.

        Returns:
            A list of the outputs asked for.

        Raises:
            EvaluationError: If the specification makes an error of these values.
        """
        feeds = {
            name: np.asarray(value) if np.isscalar(value) else value
            for name, value in feed_inputs.items()
        }
        with _errors_named():
            return super().run(output_names, feeds, *args, **kwargs)

    def _init(self) -> None:
        # From here the functions reach the evaluators of the bodies.
        self.functions_: dict[Any, Any] = self._functions
        if self._weights is not None:
            self.inits_ = self._weights
        super()._init()
        for node in self.rt_nodes_:
            if "" in node.onnx_node.output:
                node.onnx_node = _with_all_outputs(node.onnx_node)
            node.run = watched(node.run, node.onnx_node, self.opsets.get("", 1))

    def _load_impl(self, node: onnx.NodeProto, input_types: Any = None) -> Any:
        if node.domain == "ai.onnx":
            node = _in_default_domain(node)
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None and (node.domain, node.op_type) not in self.new_ops_:
            body = type(self)(
                _bound(function, node),
                functions=self._functions.values(),
                verbose=self.verbose,
                new_ops=list(self.new_ops_.values()),
            )
            return functools.partial(_Call, body)
        try:
            return super()._load_impl(node, input_types)
        except RuntimeContextError:
            if input_types is not None:
                raise
            return functools.partial(OpFunctionContextDependant, parent=self)


@contextlib.contextmanager
def _errors_named() -> Iterator[None]:
    """Raise an error of the evaluator for whatever onnx's own stumbles over."""
    try:
        yield
    except (RewriteError, NotImplementedError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise EvaluationError(f"{type(error).__name__}: {reason}") from error


class _Call(Operator):
    """A call of a model-local function, its attributes already in the nodes."""

    op_schema = None  # onnx would take that of any operator of the same name

    def __init__(
        self, body: ReferenceEvaluator, onnx_node: onnx.NodeProto, run_params: dict[str, Any]
    ) -> None:
        super().__init__(onnx_node, run_params)
        self._body = body

    def _run(self, *inputs: Value, **_: Any) -> tuple[Value, ...]:
        names = self._body.input_names
        if len(inputs) > len(names):
            raise self.error(f"the function has {len(names)} inputs, the call {len(inputs)}")
        feeds = dict(zip(names, inputs, strict=False))
        return tuple(self._body.run(None, dict.fromkeys(names) | feeds, attributes={}))


_OPERATORS: tuple[type[OpRun], ...] = (
    *BASIC_OPERATORS,
    *SEQUENCE_OPERATORS,
    *LOOP_OPERATORS,
    *EDGE_OPERATORS,
    GRU,
    LSTM,
    RNN,
    Map,
    Pad,
    Resize,
)


_added: list[type[OpRun]] = []


def add_operators(operators: Iterable[type[OpRun]]) -> None:
    """Teach every evaluator that is made from now on further operators."""
    _added[:0] = operators


def _message(model: Any) -> tuple[Any, Path | None]:
    """Return the message of a model, and the folder of its weights where it is known."""
    if isinstance(model, str | os.PathLike):
        proto, folder = files.read(model), Path(model).absolute().parent
        check_fields(proto, os.fspath(model))
        external_data.check_message(proto, folder)
        return proto, folder
    if isinstance(model, ir.Model):
        return protos.to_proto(model), models.folder_of(model)
    if graphsurgeon.is_graph(model):
        return graphsurgeon.to_proto(model), None
    return model, None


def _opsets(proto: onnx.ModelProto) -> dict[str, int]:
    return {_domain(opset.domain): opset.version for opset in proto.opset_import}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name  # two names of one domain


def _in_default_domain(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.domain = ""
    return copy


def _with_all_outputs(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [name or _OMITTED for name in node.output]
    return copy


def _bound(function: onnx.FunctionProto, call: onnx.NodeProto) -> onnx.FunctionProto:
    """Return a copy of a function that holds the attributes of a call."""
    copy = onnx.FunctionProto()
    copy.CopyFrom(function)
    given: Mapping[str, onnx.AttributeProto] = {
        attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)
    }
    _bind(copy.node, given)
    del copy.attribute[:], copy.attribute_proto[:]
    for opset in copy.opset_import:
        opset.domain = _domain(opset.domain)
    return copy


def _bind(nodes: Sequence[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put the attributes of a call in place of the references to them, in bodies too.

    Args:
        nodes: The nodes of a function; they are changed.
        given: The attributes; a reference to one that is not given is dropped, so that the
            operator's own default holds.
    """
    for node in nodes:
        for attribute in list(node.attribute):
            if attribute.ref_attr_name:
                name, source = attribute.name, given.get(attribute.ref_attr_name)
                if source is None:
                    node.attribute.remove(attribute)
                else:
                    attribute.CopyFrom(source)
                    attribute.name = name
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _bind(attribute.g.node, given)
