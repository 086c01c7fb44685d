"""What patterns of several rooms share: conditions of an iteration, and what branches compute.

Start with `selections`, the choices between two values; `in_branch` says what has to stay in a
branch, and `widths` from which width of rows on a loop is faster.
"""
