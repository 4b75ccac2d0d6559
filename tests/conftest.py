"""Hypothesis draws the same examples on every machine, and a busy machine fails no test."""

from hypothesis import settings

settings.register_profile("proof", deadline=None, derandomize=True)
settings.load_profile("proof")
