"""Writes to ranges and boxes: ``s[.., a:b] = v``, rows of any length, tiles.

Start with `find_ranges`; `range_marks` finds the iteration that is the last to reach a place,
`own_rows` is for ranges within a row of the iteration's own, and `tiles` for boxes of one size.
"""
