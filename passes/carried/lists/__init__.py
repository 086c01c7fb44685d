"""What grows: tensors and sequences that iterations add rows, elements or pieces to.

Start with `appends`, one row in each iteration; `filters` is for rows that some iterations add,
`joined_lists` for pieces of any size, and `buffers` for what drops as many as it gains.
"""
