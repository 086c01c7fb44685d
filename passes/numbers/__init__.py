"""Small integers that a graph computes, as sums of dimensions, lengths and counters.

Start with `evaluate`, which reads a value on demand; `integer_rules` is the table of its rules,
one for each operator, and `integers` holds the sums. `number_order` says what is proven of them,
and `folding` which numbers are the same in every run.
"""
