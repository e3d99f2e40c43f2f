"""Files and their names: read within limits, written whole or not at all."""
