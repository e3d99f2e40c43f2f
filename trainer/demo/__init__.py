"""A local web page to try a model: `python -m trainer demo`. Its packages are the extra `demo`.

`app` routes requests, `uploads` reads and checks images, `queue` runs one prediction at a time, `responses` draws
what is sent back, `connections` gives clients limited time, `serve` runs the server. `page/` is the page: plain ES
modules, no build.
"""
