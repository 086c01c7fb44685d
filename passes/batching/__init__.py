"""Operators with a batch axis: the layouts, the rules, the walk over a body.

Start with `rules`, the table; each family of operators has a file in `families`. `walk` goes
through a body, `rule_choice` picks the rule of a node, `context` is what a rule is handed, and
`layouts` says how samples lie. `packed` and `flat` are for samples that differ in shape.
"""

from __future__ import annotations
