"""Tensors in place of sequence inputs and outputs."""
