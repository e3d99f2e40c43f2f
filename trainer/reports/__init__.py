"""The pages and tables that show data and scores to people. No score is computed here."""

from trainer.doors import opened

__all__ = [
    "REGISTERS_NOTHING",  # words for a run that registers nothing
    "ComparedData",  # data beside the default's data
    "DataStatement",  # what the comparison of data found, for its page and the log
    "HistoryEntry",  # a version in the page of a model's history
    "HistoryMove",  # a move of the default in that page
    "comparable_scores",  # the scores by name, for a console that compares runs
    "counts_text",  # how many images and observers, in words
    "decision_page",  # the decision as a page
    "print_comparison",  # prints a comparison of models
    "print_evaluation",  # prints an evaluation
    "short_gain",  # a gain in a few words
    "summary_lines",  # the lines that `registry show` prints
    "write_comparison",  # writes the page of a comparison
    "write_curve",  # writes the page of a training
    "write_data_comparison",  # writes the page of data beside other data
    "write_history",  # writes the page of a model's history
    "write_preview",  # writes the page that shows prepared data
    "write_readings",  # writes the page that shows how recordings may be read
    "write_report",  # writes the page of an evaluation
    "write_run",  # writes the page of a run while it runs
    "write_sweep",  # writes the page of a sweep
    "write_unneeded",  # writes the page of data that a run does not need
]
__getattr__ = opened(__name__, __file__)
