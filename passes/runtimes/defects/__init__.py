"""Nodes that meet a defect of a runtime, and what computes the same without it.

Start with `matrix_products`, a few defects of one operator, each as two functions: whether a node
meets it, and the nodes that take its place. The rows that name them stand in
`passes.runtimes.table` and `passes.runtimes.other_runtimes`.
"""
