"""What a rewrite is worth: ``python -m benchmarks`` measures and writes RESULTS.md.

``cases.py`` holds the workloads, ``measure.py`` the clock, ``__main__.py`` the tables.
"""
