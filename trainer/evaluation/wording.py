"""How scores, gains and their certainty are put into words, for pages, terminals and errors."""

from trainer.evaluation.confidence import Gain

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
NOT_CERTAIN, SAME = "not certain", "the same"
CERTAINTIES = ("better", "worse", NOT_CERTAIN, SAME)


def certainty(gain: Gain) -> str:
    """`better` or `worse` where the interval says so, SAME where no image differs, else NOT_CERTAIN."""
    if not (gain.better_on or gain.worse_on):
        return SAME
    if gain.low is not None and gain.low > 0:
        return "better"
    return "worse" if gain.high is not None and gain.high < 0 else NOT_CERTAIN


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def signed(value: float | None) -> str:
    """Four decimals, with a sign unless they show 0."""
    text = f"{value:+.4f}"
    return (text if text.strip("+-0.") else "0.0000").replace("-", MINUS)


def size(size: tuple[int, int]) -> str:
    return f"{size[0]} {TIMES} {size[1]}"
