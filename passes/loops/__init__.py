"""Writes Loops: one iteration per sample, results by sequence, block or scan output."""
