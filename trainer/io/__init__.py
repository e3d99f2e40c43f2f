"""Files: read within limits, written whole or not at all."""

from trainer.doors import opened

__all__ = [
    "MOST_MEGAPIXELS",  # the largest image that is read by default
    "MOUNT",  # where Vertex AI mounts Cloud Storage
    "UNFINISHED",  # the file that marks a folder to which files are being copied
    "StrPath",  # a path as the standard library takes it
    "check_output_path",  # refuses a path that cannot be written
    "checked_json",  # a parsed value as a type, or a mistake
    "checksum",  # the CRC32C of a file
    "folder_for_now",  # a temporary folder until the process ends
    "is_taken",  # whether an output exists already
    "local_path",  # a path as a person wrote it
    "parse_json",  # bytes to a checked value
    "read_json",  # a checked JSON file
    "read_limited",  # the bytes of a file, up to a limit
    "read_toml",  # a TOML file
    "read_yaml",  # a YAML file
    "remove_leftovers",  # removes what killed writers left
    "remove_path",  # removes a file or a folder
    "replacing",  # writes an output whole or not at all
    "room_bytes",  # the free space that may be used
    "temporary_folder",  # a temporary folder inside a `with` block
    "temporary_folder_beside",  # the same, on the disk of an output
    "write_array",  # writes `.npy`, with the system's error for a full disk
    "write_json",  # writes JSON whole or not at all
]
__getattr__ = opened(__name__, __file__)
