"""Does a rewritten model compute what the model before it computed? And what if it does not.

Start with `proving`, which verifies a rewrite and repairs it; `validation` compares two models,
and `judging` does so for one feed.
"""
