"""Tools that onnx_ir lacks: building, copying, splicing, naming, forms of each opset."""
