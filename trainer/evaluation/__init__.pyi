from .compare import Comparison as Comparison
from .data_check import Finding as Finding, ask_about as ask_about
from .evaluate import evaluate_models as evaluate_models
from .evaluation import (
    SHIPPED_MAPS as SHIPPED_MAPS,
    CeilingScores as CeilingScores,
    Ending as Ending,
    Evaluation as Evaluation,
    Gain as Gain,
    Role as Role,
    ScoredDataset as ScoredDataset,
    Share as Share,
    Significance as Significance,
)
from .gate import what_could_be_found as what_could_be_found
from .per_image import PerImage as PerImage
from .recorded import Compared as Compared
from .run_folders import RunFolder as RunFolder
from .seen import Seen as Seen
from .settings import EvaluateConfig as EvaluateConfig
from .version_record import Lineage as Lineage, VersionRecord as VersionRecord
