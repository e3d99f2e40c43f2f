"""The machines of a training: fit, time, cost and job. `lifecycle.runs.needs` asks for the quota."""

from trainer.doors import opened

__all__ = [
    "MODEL_FOLDER",  # name of the folder into which a training job writes its model
    "AcceleratorConfig",  # the machines of a training step, and how they are bought
    "BatchMachines",  # the machines of work in shards
    "DataSize",  # how many images a training has, and how large they are
    "Folders",  # where a training job reads and writes
    "JobConfig",  # the settings of a training job: hours, account, network
    "Measurement",  # the measured speed, memory and start of a training on a machine
    "Pod",  # what a pod that has a machine to itself asks for
    "PredictionPlan",  # what a batch prediction takes: shards, hours, price
    "Target",  # what runs a training: Vertex AI, Kubeflow or this machine
    "TrainingPlan",  # what a training takes: machines, batch, hours, price
    "TrainingSettings",  # all settings of one training step
    "check_outside_pod",  # refuses a folder that ends with the pod
    "check_trainings",  # checks that each training fits its machines and its data
    "checkpoint_folder",  # where a training step keeps its checkpoints
    "fit_to_data",  # settles the settings that only the data can tell
    "make_plan",  # plans a training on one accelerator
    "plan_step",  # plans a training step of a run
    "read_model_config",  # the configuration of a model that a job has written
]
__getattr__ = opened(__name__, __file__)
