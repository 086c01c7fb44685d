"""The judge: onnx's reference evaluator, put right where it departs from the specification.

Start with `reference`; `reference_ops` has the operators that differ from onnx's own.
"""
