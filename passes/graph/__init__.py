"""What onnx_ir lacks for graphs: building, copying, splicing, naming, forms of each opset."""
