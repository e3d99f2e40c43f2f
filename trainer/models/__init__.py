"""The network, and a model on disk in any form: found, loaded, imported, exported; nothing is trained here."""
