"""What is left of values that iterations choose among: the best, the first, the last, flags.

Start with `last_values`, the smallest pattern; `hits` chooses the iteration whose value is left,
and `best` and `first` say which one that is.
"""
