"""A model over files of samples: what is read, what is written, and who does the work."""
