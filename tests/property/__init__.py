"""Random bodies, compared with running the body alone for each sample."""
