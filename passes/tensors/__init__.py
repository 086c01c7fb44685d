"""Tensors in place of sequence inputs and outputs.

Start with `io`, the record in the model's metadata; `inputs` and `outputs` write the tensors, and
`finish` what is left when all maps are done.
"""
