"""The rules of operators, one file for each family of them.

Start with `elementwise`, the simplest family; `linear` and `slices` show what a rule does about
ranks and axes. The rows that name the rules stand in `passes.batching.rules`.
"""
