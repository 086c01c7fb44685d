"""Places of a grid, as PyTorch's exporter writes them for ScatterND."""

from __future__ import annotations

__all__ = ["CONSTANTS", "counted", "grid"]

CONSTANTS = """minus1 = Constant <value = int64[1] {-1}> ()
        none = Constant <value = int64[0] {}> ()
        column = Constant <value = int64[2] {-1, 1}> ()
        corner = Constant <value = int64[3] {-1, 1, 1}> ()
        two = Constant <value = int64 {2}> ()
        two1 = Constant <value = int64[1] {2}> ()
        three1 = Constant <value = int64[1] {3}> ()
        far = Constant <value = int64[1] {9223372036854775807}> ()
        half = Constant <value = float {0.5}> ()"""


def counted(axis: int, name: str = "all") -> str:
    """Compute the numbers of the positions along an axis."""
    return f"""at{axis} = Constant <value = int64 {{{axis}}}> ()
            n{axis} = Gather <axis = 0> (h, at{axis})
            {name} = Range (zero, n{axis}, one)"""


def grid(*columns: str) -> str:
    """Compute the places of a grid of vectors, as ``index_put`` is exported."""
    shapes = {2: ["column"], 3: ["corner", "column"]}[len(columns)]
    lines = [
        f"g{at} = Reshape ({c}, {s})"
        for at, (c, s) in enumerate(zip(columns, shapes, strict=False))
    ]
    lines.append(f"g{len(columns) - 1} = Identity ({columns[-1]})")
    total = "g0"
    for at in range(1, len(columns)):
        lines.append(f"t{at} = Add ({total}, g{at})")
        total = f"t{at}"
    lines.append(f"size_of_grid = Shape ({total})")
    for at in range(len(columns)):
        lines.append(f"z{at} = Expand (g{at}, size_of_grid)")
        lines.append(f"y{at} = Unsqueeze (z{at}, minus1)")
    parts = ", ".join(f"y{at}" for at in range(len(columns)))
    return "\n            ".join([*lines, f"places = Concat <axis = -1> ({parts})"])
