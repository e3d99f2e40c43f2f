"""Archives at public addresses: servers, download and cache. Cloud Storage itself is in `trainer/places`."""
