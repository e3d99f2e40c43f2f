"""Where files may be: a folder, an archive, a bucket, the web, Google Drive."""
