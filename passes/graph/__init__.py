"""Tools that onnx_ir lacks: building, copying, splicing, naming, forms of each opset.

Start with `builder`, which records nodes, and `drafts`, which drops those that are not taken;
`splice` puts them into a graph. `graphs` walks graphs forward, `made` looks back from a value.
"""
