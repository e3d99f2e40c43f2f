"""The public datasets, and their archives: `table.py` has the datasets, the others servers, download and cache.

Cloud Storage itself is in `trainer/places`.
"""

from trainer.doors import opened

__all__ = [
    "DATASETS",  # the table of datasets
    "HASH",  # the split by hash of the name
    "HASH_BY_FOLDER",  # the split by hash of the folder
    "Archive",  # an archive at a public address
    "Dataset",  # a row of the table of datasets
    "Download",  # a downloaded archive
    "FileRule",  # which part some of the authors' files have
    "Origin",  # archives at addresses: checked, offered, fetched
    "cache_folder",  # the folder of the cache, if there is one
    "used_folder",  # makes and locks a folder of the cache
]
__getattr__ = opened(__name__, __file__)
