"""Recurrent cells: one RNN, GRU or LSTM in the place of the iterations that compute its steps.

Start with `find_cells`; `cell_sums` is the normal form of what a cell computes, which
`cell_reading` reads off a body, `cell_kinds` recognises it there, and `cells` writes it.
"""
