"""The pipeline: its tasks and arrows, its form, environments and compiled files. Nothing is run or sent here."""

from trainer.doors import opened

__all__ = [
    "COMMON_IMAGES",  # images that every run needs
    "IMAGE_KINDS",  # the kinds of images: cpu, gpu, tpu, serving
    "PIPELINE_NAME",  # the name of our pipeline
    "Environment",  # where and how pipelines run
    "Prediction",  # what a batch prediction predicts, and on which machines
    "Preparation",  # which dataset is prepared in shards, and on which machines
    "Template",  # a compiled pipeline in a file or a repository
    "check_region",  # refuses a region that has another syntax
    "compare_accelerators",  # for each accelerator its plan, or why it does not fit
    "known_regions",  # the regions with accelerators
    "layered_values",  # the parameters of several layers as one
    "load_environment",  # reads an environment's file
    "load_environments",  # reads several, in which a run is tried in turn
    "pipeline_for",  # the pipeline function for an environment
    "publish",  # compiles, and uploads to a repository of templates
    "write_components",  # writes the compiled tasks
    "write_pipeline",  # writes the compiled pipeline
    "write_prediction",  # writes the compiled pipeline of a batch prediction
    "write_preparation",  # writes the compiled pipeline that prepares a dataset
]
__getattr__ = opened(__name__, __file__)
