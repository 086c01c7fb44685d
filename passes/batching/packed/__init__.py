"""Rules for samples of different length, packed into one tensor."""
