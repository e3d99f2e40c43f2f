"""A local web page to try a model: `python -m trainer demo`.

`app` answers requests, `uploads` reads and checks them, `queue` lets one prediction run at a time, `answers` turns
a picture into what the page shows, `serve` listens. `page/` is the page: plain ES modules, no build.
"""
