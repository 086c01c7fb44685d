"""Samples that differ along several axes: rows one behind the other, and sizes.

Start with `flat_rules`, the table, and `grid`, the sizes of samples and which rows are theirs;
`axis_table` has the places that are read along one axis, `reading` reads them. `families` has the
rules of operators, `resizing` those of Resize.
"""
