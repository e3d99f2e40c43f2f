"""For designers: the demo page, attention checks for CI, maps of web pages, and two designs compared.

It imports `trainer.api` alone, as a tool outside of this project would; nothing of the project imports it. What it
needs beside it, a server for the page and playwright for the browser, is the extra `studio`.
"""
