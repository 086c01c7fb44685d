"""The subcommands of ``seqmap``, one file each: its options and what it does."""
