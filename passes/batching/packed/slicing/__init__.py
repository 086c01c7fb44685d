"""Slices and Pads of packed samples, and what is cut of one tensor for each sample.

Start with `cuts`, operators that cut packed samples; `spans` cuts a part for each sample out of
one tensor, `bounded_rows` gathers the rows between two bounds, and `pads` lays rows around them.
"""
