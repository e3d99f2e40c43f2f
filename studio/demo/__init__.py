"""A local web page to try a model: `python -m studio demo`.

`app` is the server. `page/` is the page: plain ES modules, no build.
"""
