"""Models in and out: files, messages, weights, and the checks of what a stranger hands in."""
