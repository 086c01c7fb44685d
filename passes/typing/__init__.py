"""Element type, rank and shape of every value: declared, proven, and as a guard has checked."""

from passes.typing.typings import (
    TypeValuesPass,
    Typing,
    Typings,
    ValueType,
    type_both_ways,
    type_values,
)

__all__ = ["TypeValuesPass", "Typing", "Typings", "ValueType", "type_both_ways", "type_values"]
