"""The pipeline: its tasks and arrows, its form, environments and compiled files; nothing is run or sent here."""
