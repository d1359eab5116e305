"""The verdicts on the cells of a results folder, and the sentence that counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Word = Literal["verified", "differs", "not verifiable", "failed", "missing"]
WORDS: tuple[Word, ...] = ("verified", "differs", "not verifiable", "failed", "missing")

LIMITS = (
    "This does not show that an encoder saw no test text in training, that it was trained as stated, or that tables and"
    " texts beside the records follow from them."
)


@dataclass(frozen=True)
class Verdict:
    """The word for one cell, and what was compared, what differs, or why it cannot be verified."""

    word: Word
    row: str
    cell: str
    why: str


@dataclass(frozen=True)
class Verified:
    """The verdicts on the cells of a folder."""

    verdicts: list[Verdict]
    limits: str = LIMITS

    def exit_code(self, *, allow_unverified: bool = False) -> int:
        """Return 0 only where every cell is verified, or, if so allowed, where none differs."""
        words = {verdict.word for verdict in self.verdicts}
        return int("differs" in words or (words != {"verified"} and not allow_unverified))

    def __str__(self) -> str:
        lines = [f"differs: {one.cell}: {one.why}" for one in self.verdicts if one.word == "differs"]
        groups: dict[tuple[Word, str], list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.word != "differs":
                groups.setdefault((verdict.word, verdict.why), []).append(verdict)
        for (word, why), group in sorted(groups.items(), reverse=True):
            rows = list(dict.fromkeys(one.row for one in group))
            names = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more rows" if len(rows) > 3 else "")
            lines.append(f"{word}: {_cells(len(group))} of {names}: {why}")
        counts = Counter(one.word for one in self.verdicts)
        shown = [word for word in WORDS if counts[word] or word in WORDS[:3]]
        total = f"{_cells(len(self.verdicts))}: " + ", ".join(f"{counts[word]:,} {word}" for word in shown) + "."
        return "\n".join([*lines, total, self.limits])


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"
