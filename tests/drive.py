"""Plays Google Drive on a site of `tests.site`: what it answers for a file, and for one that it does not give."""

ID = "1g8j-hTT-51IG1UFwP0xTGhLdgIUCW5e5"
HTML = "text/html; charset=utf-8"
QUOTA = """<!DOCTYPE html><html><head><title>Google Drive - Quota exceeded</title></head><body>
<p class="uc-error-caption">Sorry, you can't view or download this file at this time.</p>
<p class="uc-error-subcaption">Too many users have viewed or downloaded this file recently. Please try
accessing the file again later.</p></body></html>"""


def asked(identifier=ID):
    """The address that is asked for a file."""
    return f"drive.google.com/uc?export=download&id={identifier}"


def page(identifier=ID):
    """The address of the page of confirmation of a large file."""
    return f"drive.usercontent.google.com/download?id={identifier}&export=download"


def confirmed(identifier=ID):
    """The address that this page leads to."""
    return f"{page(identifier)}&confirm=t&uuid=u-1"


def warning(identifier=ID):
    """The page of confirmation."""
    return f"""<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title></head><body>
<p class="uc-warning-caption">Google Drive can't scan this file for viruses.</p>
<form id="download-form" action="https://drive.usercontent.google.com/download" method="get">
<input type="submit" value="Download anyway"/><input type="hidden" name="id" value="{identifier}">
<input type="hidden" name="export" value="download"><input type="hidden" name="confirm" value="t">
<input type="hidden" name="uuid" value="u-1"></form></body></html>"""


def serve(site, path, content, name="images.zip", **settings):
    """Serve a file at `path` as Google Drive does."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Type": "application/octet-stream",
        "Set-Cookie": "NID=1; Domain=.google.com",
    }
    site.serve(path, content, etag="", modified="Tue, 02 Jan 2024 00:00:00 GMT", headers=headers, **settings)


def serve_large(site, content, identifier=ID, name="images.zip", **settings):
    """Serve a large file: behind the page of confirmation."""
    site.answer(asked(identifier), 303, Location=f"https://{page(identifier)}")
    site.answer(page(identifier), 200, warning(identifier).encode(), Content_Type=HTML)
    serve(site, confirmed(identifier), content, name, **settings)
