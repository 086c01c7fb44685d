"""What iterations read of what iterations have written: rows, keys, delays and rings.

Start with `seen`, for tensors whose writes depend on none of it; `rereads` finds which iteration
wrote what is read, `keyed` is for what was written under the same key, and `row_updates` for an
iteration that reads and writes a row of its own.
"""
