"""The public datasets, and their archives: `table.py` has the datasets, the others servers, download and cache.

Cloud Storage itself is in `trainer/places`.
"""
