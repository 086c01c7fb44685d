"""Models as servers take them.

Start with `triton`; `apart` proves that the samples of a batch stay apart.
"""
