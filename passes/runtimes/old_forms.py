"""Operators in the forms that old frontends know."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir

from passes.batching.opening import open_functions
from passes.graph.graphs import all_graphs, default_opset, is_default_domain, walk_nodes
from passes.graph.names import make_names_unique
from passes.graph.splice import splice_form
from passes.runtimes.plain_forms import FORMS
from passes.typing import type_values

__all__ = ["OldFormsPass"]

# What came with a later opset is opened where it is defined by older operators.
_KNOWN_OPSET = 17
# These are older, but not every frontend has them; onnxruntime opens the first of them itself.
_RARE = frozenset({"HardSwish", "HardSigmoid"})


class OldFormsPass(ir.passes.InPlacePass):
    """Write what has an equal older or plainer form in that form.

    1. A function of the model is opened, and an operator that came after opset 17, or is rare,
       and is defined as a function.
    2. Operators of `passes.runtimes.plain_forms.FORMS` take the forms that stand there.
    3. Opsets of domains that no node uses are not imported.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        modified = open_functions(model, [model.graph], stays=_is_old)
        found = [
            (node, FORMS[node.domain, node.op_type])
            for graph in all_graphs(model)
            for node in graph
            if (node.domain, node.op_type) in FORMS
        ]
        if found and default_opset(model) >= 13:
            typing = type_values(model)
            # Constants last: what they are replaced by is not typed.
            for node, form in sorted(found, key=lambda pair: pair[0].op_type == "Constant"):
                if node.graph is None:
                    continue
                modified |= splice_form(node, functools.partial(form, node, typing))
        modified |= _drop_imports(model)
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)


def _is_old(node: ir.Node) -> bool:
    has_form = (node.domain, node.op_type) in FORMS
    return is_default_domain(node) and (has_form or node.op_type not in _new_operators())


@functools.cache
def _new_operators() -> frozenset[str]:
    """Return the operators whose first version is newer than what old frontends know."""
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            version = schema.since_version
            first[schema.name] = min(version, first.get(schema.name, version))
    new = {name for name, version in first.items() if version > _KNOWN_OPSET}
    return _RARE | new


def _drop_imports(model: ir.Model) -> bool:
    used = {node.domain for graph in all_graphs(model) for node in walk_nodes(graph)}
    used |= {domain for domain, _, _ in model.functions}
    unused = [d for d in model.opset_imports if d not in ("", "ai.onnx", *used)]
    for domain in unused:
        del model.opset_imports[domain]
    return bool(unused)
