"""Recordings of one's own (dataset `custom`), from tables of eye trackers; public datasets are read elsewhere."""
