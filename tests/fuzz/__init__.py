"""Damaged models through the command line; ``python -m tests.fuzz --help``."""
