"""Models in and out: files, messages, weights, and the checks of what a stranger hands in.

Start with `models`, which copies what a caller hands in, and `on_disk`, which reads and writes
files; `structure` and `arity` check what is handed in, `checking` what comes out.
"""
