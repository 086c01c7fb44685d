"""The rules of operators for flat samples, one file for each family of them.

Start with `row_by_row`, operators that run on all rows at once, and `arranging`, where no row
moves; `cutting` and `elements` show how a result says which rows it reads. The rows that name the
rules stand in `passes.batching.flat.flat_rules`.
"""
