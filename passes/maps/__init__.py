"""The Map operator, and where the samples of a map come from."""
