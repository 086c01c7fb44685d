"""If, Loop and Scan over packed samples: each takes its own branch, and as many steps as it has.

Start with `loop`; `stepwise` runs a body step by step for all samples that have the step, which
`rosters` names, and `remaining` and `longest_first` find. `partition` is for If.
"""
