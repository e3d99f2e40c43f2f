"""From a source to prepared datasets, and from these to batches; files and archives as such are in `trainer/io`.

`datasets.py` is the table of public datasets, `prepared_data.py` the layout of prepared data, and `preprocess.py`
the way of an image to the network's input, for prediction too.
"""
