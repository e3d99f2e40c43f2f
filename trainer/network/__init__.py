"""The network: layers, graphs, preprocessing, calibration, a model's own folder, foreign weights.

Imports the ground alone.
"""
