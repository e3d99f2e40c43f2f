"""A model on disk, in any form: find, load and write it."""
