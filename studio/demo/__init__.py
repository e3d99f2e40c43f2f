"""A local web page to try a model: `python -m trainer demo`. Its packages are the extra `demo`.

`app` is the server. `page/` is the page: plain ES modules, no build.
"""
