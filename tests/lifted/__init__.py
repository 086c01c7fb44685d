"""The lifted suite: every official ONNX node test as the body of a map over several samples."""
