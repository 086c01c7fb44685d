"""Mutants of ``passes/``: wrong programs that the tests nearest to them must tell apart."""
