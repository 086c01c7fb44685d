"""Predicts where the nodes of a model will run, from tables of kernels, without a device."""
