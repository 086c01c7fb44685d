"""Linear recurrences, ``s = a_i * s + b_i``, in steps of twice as many rows each.

Start with `linear`, which writes them by `linear_steps`. `find_linear` recognises them: it reads
an iteration as a line in the state (`line_reader`), and asks which numbers its factor may be
(`bounded`).
"""
