"""Does a rewritten model compute what the model before it computed? And what if it does not."""
