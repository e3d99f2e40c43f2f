"""One training step: machines, batch, time and cost."""
