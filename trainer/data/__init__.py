"""From a source to prepared datasets, and from these to batches."""
