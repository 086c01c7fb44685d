"""Which places of a carried tensor an iteration reads and writes, by what is computed of them.

Start with `columns`, the places of a ScatterND axis by axis; `slice_writes` and `range_reads` read
rows, slices and ranges off them, `shared_coordinates` what all places of an iteration have in
common.
"""
