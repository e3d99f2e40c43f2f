"""Malformed inputs, made from a seed, for everything that reads what other people made: `make fuzz`.

Generators, one file for each kind of content, make an input from a `random.Random`: pictures, archives, matlab,
tables, weights (HDF5, graphs and checkpoints), documents (JSON of our own), names and requests. The modules of
`targets/` give it to an entry point, and compare what was accepted with an independent reader. `child.py` is the
process in which that happens; `runner.py` watches over it from outside, so that a crash or a hang costs a child.
`verdicts.py` says what came of an input. No binary file is kept in git.
"""
