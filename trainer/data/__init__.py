"""From a source to prepared datasets, and from these to batches. Files as such are in `trainer/io`, and
archives in `trainer/places`.

`prepared.py` is a prepared dataset as one object, and `prepared_data.py` its files. The table of public datasets
is in `trainer/datasets`. The way of an image to the network's input is in
`trainer/network/preprocess.py`.
"""
