"""Scores, intervals, the gate and comparisons of finished models. Nothing is trained or registered here."""
