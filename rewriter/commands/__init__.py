"""The subcommands of ``seqmap``, one file each: its options and what it does.

Start with `optimize`; `options` declares what several commands take, `console` prints.
"""
