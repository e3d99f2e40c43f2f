from .benchmark_results import Measurement as Measurement
from .gke_pods import Pod as Pod
from .plan import (
    DataSize as DataSize,
    TrainingPlan as TrainingPlan,
    check_outside_pod as check_outside_pod,
    make_plan as make_plan,
)
from .prediction_plan import BatchMachines as BatchMachines, PredictionPlan as PredictionPlan
from .settings import (
    AcceleratorConfig as AcceleratorConfig,
    JobConfig as JobConfig,
    Target as Target,
    TrainingSettings as TrainingSettings,
)
from .training_job import (
    MODEL_FOLDER as MODEL_FOLDER,
    Folders as Folders,
    check_trainings as check_trainings,
    checkpoint_folder as checkpoint_folder,
    fit_to_data as fit_to_data,
    plan_step as plan_step,
    read_model_config as read_model_config,
)
