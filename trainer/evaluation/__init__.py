"""Scores, their confidence intervals, the gate, and comparisons of models."""
