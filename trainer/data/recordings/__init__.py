"""Recordings of one's own: the dataset `custom`."""
