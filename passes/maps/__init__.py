"""The Map operator, and where the samples of a map come from.

Start with `element_source`, the questions that a source of samples answers, and with
`sequence_map` and `sites`, which make the record of a map of a node.
"""
