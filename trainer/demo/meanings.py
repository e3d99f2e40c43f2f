"""Texts that explain the figures of a region on the page, and the colours of regions."""

from trainer.evaluation.confidence import TIMES

MEANINGS = {
    "Share": "The part of all attention on the image that falls into the region.",
    "Area": "The part of the image that the region covers.",
    "Ratio": f"Share divided by area. 1{TIMES} is evenly spread attention; 3{TIMES} is three times as much.",
    "Peak": "The region's hottest point, compared with the hottest point of the image (100%).",
    "Rank": "1 for the region with the largest share.",
    "pp": "Percentage points: from 10% to 15% is +5 pp.",
}
"""Column or unit of the table of regions -> explanation."""
CAUTION = (
    "A prediction of where people look in the first seconds when nobody has given them a task. It does not "
    "replace a test with people."
)
COLORS = ("#ffffff", "#56b4e9", "#f0c929", "#3ddc97", "#ff9e5e", "#e58ac0", "#b9a3ff", "#b5e853")
"""Colours of the regions in order, then again from the first. They are light because boxes have a dark outline."""
