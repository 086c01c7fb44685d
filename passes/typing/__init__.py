"""Element type, rank and shape of every value: declared, proven, and as a guard has checked.

Start with `typings`, which types a model; `value_types` has the tables that come of it. The other
files correct what ONNX's inference gets wrong, or lacks.
"""

from passes.typing.typings import (
    TypeValuesPass,
    Typing,
    Typings,
    ValueType,
    type_both_ways,
    type_values,
)

__all__ = ["TypeValuesPass", "Typing", "Typings", "ValueType", "type_both_ways", "type_values"]
