"""Decides how a map is fused, by which guard, and writes the batched body."""
