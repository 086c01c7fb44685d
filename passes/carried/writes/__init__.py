"""Writes by index: each iteration writes to a place of its own, or the last one holds.

Start with `find_writes`; `writes` is the pattern, `read_back` is for what is read and changed
there, and `last_places` for places that several iterations write to.
"""
