"""The pipeline: its tasks and arrows, its form, environments and compiled files. Nothing is run or sent here."""
