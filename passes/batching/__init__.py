"""Operators with a batch axis: the layouts, the rules, the walk over a body."""

from __future__ import annotations
