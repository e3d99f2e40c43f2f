"""For designers: demo page, checks in CI, web pages, two designs compared; maps are made by `trainer`.

It imports `trainer.api` alone, as a tool outside of this project would; nothing of the project imports it. What it
needs beside it are two extras: `studio`, a server for the page, and `browser`, playwright.
"""
