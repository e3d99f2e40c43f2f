from .cache import Download as Download, cache_folder as cache_folder, used_folder as used_folder
from .published_archives import Origin as Origin
from .table import (
    DATASETS as DATASETS,
    HASH as HASH,
    HASH_BY_FOLDER as HASH_BY_FOLDER,
    Archive as Archive,
    Dataset as Dataset,
    FileRule as FileRule,
)
