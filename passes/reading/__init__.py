"""Reads Loops and Scans as maps: counters, trip counts, sources and appended results.

Start with `read_loops`, which reads one Loop or Scan. `iterations` finds what one iteration is
given, `needs` tells which nodes the results hang on, and `body` writes the body of the map. What
an iteration computes of small integers is read by `passes.numbers`.
"""
