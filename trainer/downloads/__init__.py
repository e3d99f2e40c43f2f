"""Archives at public addresses: what their servers say about them, their download and the cache."""
