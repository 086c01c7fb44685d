"""What one operator makes of all iterations: sums, products, extremes, and those so far.

Start with `reductions`, the total at the end, which `find_reductions` finds; `running` holds those
of all iterations, `filled` and `resets` those since a condition held.
"""
