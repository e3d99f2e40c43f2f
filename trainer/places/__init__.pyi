from .abstract_place import Place as Place, Stored as Stored
from .archive_files import (
    DAMAGED as DAMAGED,
    DamagedArchiveError as DamagedArchiveError,
    Member as Member,
    open_source as open_source,
    opened_files as opened_files,
)
from .bucket_place import BucketPlace as BucketPlace, Connection as Connection
from .buckets import (
    LOGIN as LOGIN,
    ChangedObjectError as ChangedObjectError,
    MissingError as MissingError,
    checksum_of as checksum_of,
    in_short as in_short,
)
from .file_names import ARCHIVES as ARCHIVES, SourceObject as SourceObject, is_junk as is_junk
from .places import (
    DrivePlace as DrivePlace,
    WordPlace as WordPlace,
    place_of as place_of,
    source_places as source_places,
    stored_at as stored_at,
    without_queries as without_queries,
    without_query as without_query,
)
from .queries import Queries as Queries
