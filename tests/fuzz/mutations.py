"""Damages model files: bytes, and fields of the message."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx.parser
from google.protobuf.descriptor import FieldDescriptor

MODELS = pathlib.Path(__file__).parents[2] / "models"
FILES = sorted(path for path in MODELS.rglob("*.onnx*") if path.stat().st_size < 2**20)

_NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_TEXTS = (
    "", "\n", "\x1b[31mred\x1b[0m", "../../etc/passwd", "ai.onnx", "com.microsoft", "äö🙂",
    "If", "Loop", "Scan", "SequenceMap", "Constant", "seqmap.uniform", "a" * 5000, "%s{0}", "<b>",
)  # fmt: skip
_BAD_UTF8 = b"\xff\xfe\x80"
_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_BOUNDS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def damaged(seed: int) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a damaged model file; one seed always gives the same."""
    rng = random.Random(seed)
    path = rng.choice(FILES)
    if path.suffix == ".onnxtxt" and rng.random() < 0.2:
        return ".onnxtxt", _damaged_bytes(rng, path.read_bytes())
    model = (
        onnx.parser.parse_model(path.read_text("utf-8"))
        if path.suffix == ".onnxtxt"
        else onnx.ModelProto.FromString(path.read_bytes())
    )
    way = rng.random()
    if way < 0.15:
        return ".onnx", _damaged_bytes(rng, model.SerializeToString(deterministic=True))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _damage_field(rng, model)
    data = model.SerializeToString(deterministic=True)
    return ".onnx", _with_bad_text(rng, model, data) if way > 0.9 else data


def _damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    match rng.randrange(4):
        case 0:
            return bytes(changed[: rng.randrange(len(changed))])
        case 1:
            at = rng.randrange(len(changed))
            del changed[at : at + rng.choice((1, 4, 50))]
        case 2:
            at = rng.randrange(len(changed))
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 50)))
        case _:
            for _ in range(rng.choice((1, 3, 30))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _with_bad_text(rng: random.Random, model: onnx.ModelProto, data: bytes) -> bytes:
    """Put bytes that are not UTF-8 into a name, wherever it stands."""
    names = sorted(
        {n for node in model.graph.node for n in (node.name, *node.output) if len(n) > 3}
    )
    if not names:
        return data
    name = rng.choice(names).encode()
    return data.replace(name, _BAD_UTF8 + name[len(_BAD_UTF8) :])


Place = tuple[Any, FieldDescriptor]


def _places(message: Any) -> Iterator[Place]:
    """Yield every field that is set, at any depth, with the message that holds it."""
    stack = [message]
    while stack:
        one = stack.pop()
        for field, value in one.ListFields():
            yield one, field
            if field.message_type is not None:
                stack.extend(value if field.is_repeated else [value])


def _damage_field(rng: random.Random, model: onnx.ModelProto) -> None:
    by_kind: dict[str, list[Place]] = {}
    for message, field in _places(model):
        by_kind.setdefault(f"{message.DESCRIPTOR.name}.{field.name}", []).append((message, field))
    message, field = rng.choice(by_kind[rng.choice(sorted(by_kind))])
    if field.is_repeated:
        _damage_repeated(rng, model, message, field)
    elif rng.random() < 0.25:
        message.ClearField(field.name)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(_another(rng, model, field.message_type))
    else:
        setattr(message, field.name, _value(rng, model, field, getattr(message, field.name)))


def _damage_repeated(
    rng: random.Random, model: onnx.ModelProto, message: Any, field: FieldDescriptor
) -> None:
    items = getattr(message, field.name)
    at = rng.randrange(len(items))
    match rng.randrange(5):
        case 0:
            del items[at]
        case 1:
            message.ClearField(field.name)
        case 2:
            items.extend([items[at]] * rng.choice((1, 1, 1, 300)))
        case 3:
            kept = list(items)
            rng.shuffle(kept)
            copies = (
                [type(one).FromString(one.SerializeToString()) for one in kept]
                if (field.message_type is not None)
                else kept
            )
            del items[:]
            items.extend(copies)
        case _:
            if field.message_type is not None:
                items[at].CopyFrom(_another(rng, model, field.message_type))
            else:
                items[at] = _value(rng, model, field, items[at])


def _another(rng: random.Random, model: onnx.ModelProto, kind: Any) -> Any:
    """Return a copy of a message of the same kind from elsewhere in the model."""
    found = [
        one
        for message, field in _places(model)
        if field.message_type is kind
        for one in (
            getattr(message, field.name) if field.is_repeated else [getattr(message, field.name)]
        )
    ]
    chosen = rng.choice(found)
    return type(chosen).FromString(chosen.SerializeToString())


def _value(rng: random.Random, model: onnx.ModelProto, field: FieldDescriptor, old: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(sorted(field.enum_type.values_by_number))
    if field.cpp_type in _INTEGERS:
        low, high = _BOUNDS.get(field.cpp_type, (-(2**63), 2**63 - 1))
        choices: list[Callable[[], int]] = [lambda: rng.choice(_NUMBERS), lambda: old + 1]
        return min(max(rng.choice(choices)(), low), high)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return rng.choice((b"", _BAD_UTF8, old[: len(old) // 2], old + b"\0", old * 2))
        names = [name for node in model.graph.node for name in (*node.output, node.op_type)]
        return rng.choice(names) if names and rng.random() < 0.5 else rng.choice(_TEXTS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not old
    return rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
