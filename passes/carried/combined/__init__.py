"""Several writes of one iteration, one behind the other, and writes under a condition.

Start with `find_steps`; `steps` writes those that iterations keep apart, `writes_in_turn` those
that meet, and `conditional` those of the iterations whose condition holds.
"""
