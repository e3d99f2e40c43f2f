"""For designers: demo page, checks in CI, web pages, two designs compared. Maps are made by `trainer`.

It imports `trainer.api` and `trainer.tools` alone, as a tool outside of this project would. Nothing of the project
imports it. Beside them it needs two extras: `studio`, a server for the page, and `browser`, playwright.
"""
