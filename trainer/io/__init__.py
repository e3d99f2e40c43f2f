"""Everything outside of the process: files, buckets, archives, pictures, other processes and the machine.

Nothing here knows what a dataset or a model is.
"""
