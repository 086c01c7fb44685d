"""Finds the cases that this folder proves, and which operators these are of."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import onnx

import tests.passes.batching
from tests.passes.batching.harness import Case, single_model
from tests.passes.batching.ragged import RaggedCase

__all__ = ["proven_cases", "proven_operators"]


def proven_operators(provers: Collection[str], kinds: Collection[str]) -> set[tuple[str, int]]:
    """Return each operator that a case without a loop proves, with the opset of the case.

    A test proves the cases that it is parametrised with if it calls a prover by name. An
    operator is proven where it reads an operand of the wanted kinds, or what is computed of one.

    Args:
        provers: Names of functions.
        kinds: Kinds of operands.
    """
    return {
        (op_type, case.opset)
        for case in map(_as_case, proven_cases(provers, (Case, RaggedCase)))
        if case.loops == 0
        for op_type in _batched_operators(case, kinds)
    }


def proven_cases(provers: Collection[str], kinds: tuple[type, ...]) -> Iterator[Any]:
    """Yield each case that a test of this folder is parametrised with and proves.

    Args:
        provers: Names of functions; the test calls one of them by its name.
        kinds: The classes of cases.
    """
    for module in pkgutil.iter_modules(tests.passes.batching.__path__):
        if not module.name.startswith("test_"):
            continue
        members = vars(importlib.import_module(f"tests.passes.batching.{module.name}"))
        for name, member in members.items():
            code = getattr(member, "__code__", None)
            if name.startswith("test_") and code is not None and {*provers} & {*code.co_names}:
                for mark in getattr(member, "pytestmark", []):
                    yield from _cases_in(mark.args, kinds)


def _cases_in(value: Any, kinds: tuple[type, ...]) -> Iterator[Any]:
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, Mapping):
        yield from _cases_in([*value.values()], kinds)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _cases_in(one, kinds)


def _as_case(case: Case | RaggedCase) -> Case:
    if isinstance(case, Case):
        return case
    return dataclasses.replace(case.single(), loops=case.loops)


def _batched_operators(case: Case, kinds: Collection[str]) -> Iterator[str]:
    read = {name for name, operand in case.operands.items() if operand.kind in kinds}
    yield from _reading(single_model(case).graph, read)


def _reading(graph: onnx.GraphProto, read: set[str]) -> Iterator[str]:
    for node in graph.node:
        inner = [a.g for a in node.attribute if a.HasField("g")]
        inside = [op_type for g in inner for op_type in _reading(g, set(read))]
        yield from inside
        if read & set(node.input) or inside:
            read.update(node.output)
            yield node.op_type
