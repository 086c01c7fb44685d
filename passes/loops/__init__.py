"""Writes Loops: one iteration per sample, results by sequence, block or scan output.

Start with `plan`, which decides how each result is collected, then `loop`, which writes the Loop.
`batched_results` also writes the results of what was fused.
"""
