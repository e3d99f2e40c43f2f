"""A local web page to try a model: `python -m trainer demo`. Its packages are the extra `demo`.

`app` checks requests and runs one prediction at a time, `responses` makes what is sent back, `serve` runs the
server. `page/` is the page: plain ES modules, no build.
"""
