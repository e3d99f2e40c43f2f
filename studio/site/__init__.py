"""The demo page as static files, which need no server: `python -m studio site`.

`build` writes them. `page/` is what they have beside the files of `studio.demo`: the browser runs the model.
"""
