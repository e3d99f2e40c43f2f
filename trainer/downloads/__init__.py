"""Archives at public addresses: what their servers say of them, their download and the cache."""
