"""Models that are run: sessions, the Predictor, and the comparison of times.

Start with `sessions`; `predictor` and `timing` run a session for lists and for the comparison.
"""
