"""A model over files of samples: what is read, what is written, and who does the work.

Start with `rows`, which reads samples, and `workers`, which run the model on them.
"""
