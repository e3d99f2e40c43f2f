"""Scores, intervals, the gate and comparisons of finished models; nothing is trained or registered here."""
