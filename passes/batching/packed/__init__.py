"""Rules for samples of different length, packed into one tensor.

Start with `rules`, the table. Of samples with 2, 0 and 3 rows the tensor has 5 rows, and
`passes.batching.lengths` derives from the lengths which rows belong to which sample. `slicing` is
for what cuts and pads rows, `control` for If, Loop and Scan.
"""
