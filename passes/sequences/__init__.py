"""Facts about sequences, and the tensors that take their place.

Start with `known`, the facts about the sequences of a model, then `reads`, which writes what is
read of one.
"""
