"""Files, buckets, archives, pictures, processes and the machine. Datasets and models are not known here."""
