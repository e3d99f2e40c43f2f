from .copies import match_copies as match_copies
from .fetch import (
    fetch_dataset as fetch_dataset,
    fingerprint_data as fingerprint_data,
    propose_reading as propose_reading,
)
from .held_out_set import HeldOutImage as HeldOutImage
from .load import TrainingData as TrainingData
from .prepared import PreparedData as PreparedData
from .prepared_data import (
    SPLIT_NAMES as SPLIT_NAMES,
    SPLITS as SPLITS,
    Manifest as Manifest,
    Statistics as Statistics,
    hashes_of as hashes_of,
)
from .recordings.questions import AmbiguousReadingsError as AmbiguousReadingsError
from .sample import sample_counts as sample_counts
from .settings import (
    CACHES as CACHES,
    SAMPLE as SAMPLE,
    FetchConfig as FetchConfig,
    HeldOutConfig as HeldOutConfig,
    parse_image_size as parse_image_size,
)
from .splits import hash_position as hash_position
from .statistics import FEATURES as FEATURES, DataShift as DataShift, Shift as Shift
from .tfrecords import Example as Example, Original as Original
