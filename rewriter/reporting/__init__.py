"""The report of a rewrite: its record, words, pictures, and the remedies it offers."""
