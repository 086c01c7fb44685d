"""Reads the values of options from the words of the command line."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from rewriter.option_values import LARGEST_DIM
from rewriter.proof.budget import Budget, parse_budget
from rewriter.target_table import ALIASES

__all__ = [
    "backend",
    "budget",
    "count",
    "input_shape",
    "model_path",
    "packed",
    "ratio",
    "seed",
    "target",
    "tolerance",
]

Dims = tuple[int | str | None, ...]


def packed(text: str) -> tuple[str, str]:
    """Read NAME=LENGTHS."""
    name, _, lengths = text.partition("=")
    if not name or not lengths:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LENGTHS, ids=lengths for example")
    return name, lengths


def target(text: str) -> str:
    """Read the name of a target, in any case of letters; short ones stand for another."""
    return ALIASES.get(text.lower(), text.lower())


def backend(text: str) -> str:
    """Read the name of a backend, in any case of letters; short ones stand for another."""
    short = {"ort": "onnxruntime", "ov": "openvino", "trt": "tensorrt"}
    return short.get(text.lower(), text.lower())


def count(text: str) -> int:
    """Read a number of at least one."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def model_path(text: str) -> Path:
    """Read the name of a model file."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return Path(text)


def budget(text: str) -> Budget:
    """Read a time and a size."""
    try:
        return parse_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seed(text: str) -> int:
    """Read a number of at least zero."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def tolerance(text: str) -> float:
    """Read a tolerance."""
    number = _number(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no tolerance, give a number from 0")
    return number


def ratio(text: str) -> float:
    """Read a finite number above zero."""
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no ratio, give a number above 0")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def input_shape(text: str) -> tuple[str, Dims]:
    """Read NAME=d,d."""
    name, equals, dims = text.rpartition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=d,d")
    return name, tuple(_dim(dim.strip()) for dim in dims.split(",")) if dims else ()


def _dim(text: str) -> int | str | None:
    if text.isdecimal():
        if int(text) > LARGEST_DIM:
            raise argparse.ArgumentTypeError(f"dimension {text} is larger than {LARGEST_DIM}")
        return int(text)
    if text == "?":
        return None
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(
            f"dimension {text!r} is neither a number, a name nor ? for unknown"
        )
    return text
