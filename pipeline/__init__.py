"""What builds, sends, runs and lists pipelines, by a person or in CI; what tasks need is in `lifecycle`."""
