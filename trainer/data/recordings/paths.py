"""What the paths of tables tell: the image or the person that a table is of."""

import re

WORD = r"[^_\-\s.()]+"
"""A word of the name of a table or a folder."""


def part_of(path: tuple[str, ...], part: tuple[int, int, int]) -> str:
    """The name at a depth of a path, 0 for the table's, without some of its words before and after.

    It may be empty.

    `part` is the depth, and the numbers of words before and after. Example: of the path (p1, face_07_fix),
    the part (0, 0, 1) is face_07.
    """
    depth, before, after = part
    if depth >= len(path):
        return ""
    name = path[-1 - depth]
    words = list(re.finditer(WORD, name))
    if before + after >= max(1, len(words)):
        return ""
    begin = words[before].start() if before else 0
    return name[begin : words[len(words) - 1 - after].end() if after else len(name)]


def owner_of(path: tuple[str, ...], part: tuple[int, int, int] | None) -> str:
    """The path of a table without the part that names its image, and without suffixes such as `_fixations`.

    It may be the name of an observer with a table for each image. Example: p1/a_fixations.csv of the image a
    gives `p1/*`, for all tables of the observer p1.
    """
    names = list(path)
    if part is not None and part_of(path, part):
        depth, before, _ = part
        own, image = names[-1 - depth], part_of(path, part)
        begin = own.rindex(image) if before else 0
        names[-1 - depth] = f"{own[:begin]}*{own[begin + len(image) :]}"
    if kind := re.search(r"(?i)(all[ _-]?gaze|fixations?|fix)$", names[-1]):
        names[-1] = names[-1][: kind.start()].rstrip(" _-.") or names[-1]
    return "/".join(names)
