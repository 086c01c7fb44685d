"""What a rewrite is worth: ``python -m benchmarks`` measures and writes RESULTS.md.

``cases.py`` holds the workloads, ``measure.py`` the clock, ``__main__.py`` the tables;
``small_batches.py`` goes from one sample upwards, ``forms.py`` through the forms of one map.
"""
