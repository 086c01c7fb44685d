"""Inputs of models: what they may be, random ones, files of them, checks of given ones."""
