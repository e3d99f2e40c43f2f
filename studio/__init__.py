"""For designers: demo page, checks in CI, web pages, two designs compared; maps are made by `trainer`.

It imports `trainer.api` alone, as a tool outside of this project would; nothing of the project imports it. What it
needs beside it, a server for the page and playwright for the browser, is the extra `studio`.
"""
