"""Values that a Loop or Scan carries beside counters: each pattern as a map and operators.

Start with `states`, which goes through the values of a Loop; `find` asks for one pattern after
another, `pattern` says what each answers, and `joined` what it is written from. A file whose name
begins with ``find`` recognises what others write. Each room holds the patterns of one idea, and
reads those in front of it alone: `common`, `lists`, `totals`, `recurrences`, `cells`, `places`,
`writes`, `ranges`, `combined`, `choices`, `rereads`.
"""
