"""Consoles of rich that write to memory."""


def printed(console):
    """What was printed on a console whose file is an `io.StringIO`."""
    return console.file.getvalue()
