"""Decides how a map is fused, by which guard, and writes the batched body.

Start with `turn`, which takes the maps in order, then `planning`, which decides on one of them:
`walk_site` batches its body, `form_choice` compares forms by their `cost`, `guard_choice` finds
the question of a guard. `apply` writes the plan.
"""
