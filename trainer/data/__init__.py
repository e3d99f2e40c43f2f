"""From a source to prepared datasets, and from these to batches. Files as such are in `trainer/io`, and
archives in `trainer/places`.

`prepared.py` is a prepared dataset as one object, and `prepared_data.py` its files. The table of public datasets
is in `trainer/datasets`. The way of an image to the network's input is in
`trainer/network/preprocess.py`.
"""

from trainer.doors import opened

__all__ = [
    "CACHES",  # where decoded images may be kept
    "FEATURES",  # the measured features of images
    "SAMPLE",  # the source that generates the sample set
    "SPLITS",  # the names `train` and `valid`
    "SPLIT_NAMES",  # what sentences call a split
    "AmbiguousReadingsError",  # recordings that can be read in several ways
    "DataShift",  # how data differ from other data
    "Example",  # a prepared image with map and fixations
    "FetchConfig",  # the settings of fetching
    "HeldOutConfig",  # the settings of a test set
    "HeldOutImage",  # a held-out image with its recordings
    "Manifest",  # contents and origin of prepared data
    "Original",  # a held-out image as the source has it
    "PreparedData",  # a prepared dataset as one object
    "Shift",  # how far one value has moved
    "Statistics",  # the statistics of a prepared dataset
    "TrainingData",  # the images of a training, in batches
    "fetch_dataset",  # prepares a dataset from its source
    "fingerprint_data",  # the digest of a source, without fetching it
    "hash_position",  # the place of a text in 0..1, by its hash
    "hashes_of",  # the key of a split's hashes in a model's training images
    "match_copies",  # pairs the hashes of pictures that are copies
    "parse_image_size",  # reads a size such as `240x320`
    "propose_reading",  # proposes what tables of recordings mean
    "sample_counts",  # how many images the sample set has
]
__getattr__ = opened(__name__, __file__)
