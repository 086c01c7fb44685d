"""Models that are run: sessions, the Predictor, and the comparison of times."""
