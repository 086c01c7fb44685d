"""Resize of images of any size, number by number as onnxruntime has it.

Start with `resize`; `resized_axes` has sizes, scales and places of the axes that change, and
`taps`, `antialias` and `whole_sums` are the three ways in which numbers are weighed.
"""
