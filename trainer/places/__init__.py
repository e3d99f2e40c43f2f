"""Where files may be: a folder, an archive, a bucket, the web, Google Drive."""

from trainer.doors import opened

__all__ = [
    "ARCHIVES",  # the suffixes of archives
    "DAMAGED",  # Python's errors for damaged archives
    "LOGIN",  # how to log in, for messages
    "BucketPlace",  # a place in Cloud Storage
    "ChangedObjectError",  # another process changed the object
    "Connection",  # clients of Cloud Storage, to use again
    "DamagedArchiveError",  # an archive that cannot be read
    "DrivePlace",  # a file on Google Drive
    "Member",  # one file of a source
    "MissingError",  # an object does not exist
    "Place",  # any place that a text names
    "Queries",  # addresses with queries, which may be secrets
    "SourceObject",  # the name, size and checksum of a file
    "Stored",  # a folder or file, here or in a bucket
    "WordPlace",  # a word such as `sample`
    "checksum_of",  # the CRC32C of an object
    "in_short",  # the innermost cause of a network error
    "is_junk",  # whether an operating system made the file
    "open_source",  # the members of a stored source
    "opened_files",  # the members of local files
    "place_of",  # the place that a text names
    "source_places",  # all places in the text of a source
    "stored_at",  # a path or a `gs://` address to a place
    "without_queries",  # a text without secrets in its addresses
    "without_query",  # an address without query and password
]
__getattr__ = opened(__name__, __file__)
