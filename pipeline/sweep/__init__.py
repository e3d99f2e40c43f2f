"""Sweeps: a search for the settings with the lowest validation loss, among trainings on one prepared dataset."""
