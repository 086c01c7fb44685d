"""Reads Loops and Scans as maps: counters, trip counts, sources and appended results."""
