"""Inputs of models: what they may be, random ones, files of them, checks of given ones.

Start with `feeds`, which draws inputs; `input_specs` tells what an input may be, and `feed_checks`
whether given ones fit.
"""
