"""Scores, intervals, the gate and comparisons of finished models. Nothing is trained or registered here."""

from trainer.doors import opened

__all__ = [
    "SHIPPED_MAPS",  # the files of the maps that an endpoint must return
    "CeilingScores",  # how well people predict each other on a dataset
    "Compared",  # new data beside a model's data, image by image
    "Comparison",  # models compared on all datasets that they share
    "Ending",  # how an evaluation ends, such as promoted or held
    "EvaluateConfig",  # the settings of the gate
    "Evaluation",  # the scores of a candidate and the decision, read and written
    "Finding",  # something odd about data, and whether it holds a promotion
    "Gain",  # how much better one model is than another, with its interval
    "Lineage",  # what a version was made of
    "PerImage",  # the scores of models on each image, with means and gains
    "Role",  # what has scores: candidate, champion, centre bias, uniform, observers
    "RunFolder",  # the folder of a local run, its file and attempts
    "ScoredDataset",  # the scores on one dataset
    "Seen",  # the images that a model was trained on
    "Share",  # how far a model comes from one score to another
    "Significance",  # what an interval says of a gain
    "VersionRecord",  # the content of `version.json`
    "ask_about",  # asks the default model what is odd about prepared data
    "evaluate_models",  # scores a candidate, decides, and writes the evaluation
    "what_could_be_found",  # says which gain a decision could find
]
__getattr__ = opened(__name__, __file__)
