"""Files, buckets, archives, pictures, processes and the machine; datasets and models are not known here."""
