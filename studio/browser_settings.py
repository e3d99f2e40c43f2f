"""The settings of the browser, from which flags are made."""

import dataclasses
from typing import ClassVar

from trainer.tools import check_ranges, setting


@dataclasses.dataclass(frozen=True)
class PageConfig:
    """Settings of the browser that opens web addresses and HTML files."""

    TITLE: ClassVar[str] = "pages"
    viewport_width: int = setting(1280, "Width of the browser's window, pixels.", ge=100, le=8192)
    viewport_height: int = setting(800, "Height of the browser's window, pixels.", ge=100, le=8192)
    full_page: bool = setting(False, "Take the whole page, not only what the window shows.")
    timeout_s: float = setting(60.0, "Seconds that a page may take, with the start of the browser.", gt=0, le=3600)
    sandbox: bool = setting(
        True, "Run the page in the browser's sandbox. Do without only for a page that you trust, where it must be."
    )

    def __post_init__(self) -> None:
        check_ranges(self)
