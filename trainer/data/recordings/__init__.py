"""Recordings of one's own (dataset `custom`), from tables of eye trackers. Public datasets are read elsewhere."""
