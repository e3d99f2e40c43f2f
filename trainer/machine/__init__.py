"""What is computed on: memory, processors, processes, and how far a work is."""
