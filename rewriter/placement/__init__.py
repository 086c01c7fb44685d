"""Predicts where the nodes of a model will run, from tables of kernels, without a device.

Start with `placing`; `predict` follows the runtime's rules, `kernel_table` reads the tables.
"""
