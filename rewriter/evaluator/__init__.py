"""The judge: onnx's reference evaluator, put right where it departs from the specification."""
