"""The network: layers, graphs, preprocessing, calibration, and a model's own folder. Imports the ground alone."""
