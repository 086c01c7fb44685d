"""Remedies in the words of Python: keyword arguments where the command line has options."""

from __future__ import annotations

import re

__all__ = ["in_python"]

_NAME = r"--uniform (\S+?)(?=[,;)]|:?\s|$)"
_SHAPE = r"--input-shape (\S+?)=([\w?,]*[\w?])"
_VALUE = r'=(?:True|\d+|"[\w-]+"|\[[^\]]*\]|\{[^}]*\})'
_WORDS = {
    r"give inputs it accepts with --inputs": "give inputs to seqmap.validate",
    r"or skip this with --no-verify": "or leave out verify=True",
    r"write the model all the same with --no-verify": "leave out verify=True",
    r"in a file given with --rules": "and import what defines it",
    r"allow more with --verify-budget": "give a larger budget to seqmap.validate",
    r"--strategy (\w+) or (fuse|expand)\b": r'strategy="\1" or "\2"',
    r"--strategy (\w+)": r'strategy="\1"',
    r"--opset (\w+)": r"opset=\1",
    r"--target (\w[\w-]*)": r'target="\1"',
    r"--tensor-io\b": "tensor_io=True",
    r"--trust-types\b": "trust_types=True",
    r"--exact\b": "exact=True",
    r"--copy-weights \(copy_weights=True\)": "copy_weights=True",
    r"--uniform\b": "uniform",
    r"--input-shape\b": "input_shapes",
    r"--inputs\b": "inputs",
}


def in_python(text: str) -> str:
    """Write the options of the command line in a text as keyword arguments.

    Args:
        text: A message or a report, such as ``remedy: --uniform xs (tried: fused)``.

    Returns:
        The text, such as ``remedy: uniform=["xs"] (tried: fused)``.
    """
    text = re.sub(f"{_NAME}( {_NAME})*", _uniform, text)
    text = re.sub(f"{_SHAPE}( {_SHAPE})*", _shapes, text)
    for option, words in _WORDS.items():
        text = re.sub(option, words, text)
    return re.sub(rf"({_VALUE}) (?=\w+=)", r"\1, ", text)


def _uniform(match: re.Match[str]) -> str:
    names = re.findall(_NAME, match[0])
    return f"uniform=[{', '.join(map(_quoted, names))}]"


def _shapes(match: re.Match[str]) -> str:
    pairs = re.findall(_SHAPE, match[0])
    shapes = (f"{_quoted(name)}: {_listed(dims)}" for name, dims in pairs)
    return f"input_shapes={{{', '.join(shapes)}}}"


def _listed(dims: str) -> str:
    return f"[{', '.join(map(_dim, dims.split(',')))}]"


def _dim(dim: str) -> str:
    if dim == "?":
        return "None"
    return dim if dim.isdecimal() else _quoted(dim)


def _quoted(name: str) -> str:
    return f'"{name}"'
