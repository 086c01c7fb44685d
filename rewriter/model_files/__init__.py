"""Models in and out: files, messages, weights, and the checks of what a stranger hands in.

Start with `models`; `structure` and `arity` check what is handed in, `checking` what comes out.
"""
