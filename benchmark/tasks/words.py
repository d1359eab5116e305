"""Word similarity and relatedness: Spearman of cosine over pairs scored by people (docs/protocol.md).

The files are those of eval-word-vectors (lower-cased, except names in the WS-353 files); SCWS is from its authors. A
word is encoded alone, like any text. BURT averages SimLex, the two parts of WS-353, MEN and SCWS: the suite `words`.
"""

from __future__ import annotations

from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.phrases import read_scws, read_word_pairs
from benchmark.data.sources import DataSource
from benchmark.tasks.base import PairsData, TaskRow, check_rows


def word_pairs(row: TaskRow, data: DataSource, limit: int | None, *, highest: float = 10) -> PairsData:
    located = data.locate(row.dataset, row.form)
    (path,) = located.files.values()
    pairs = read_word_pairs(path, highest)
    check_rows(located, "test", len(pairs))
    return PairsData(located, {"test": pairs}, limit=limit)


def contextual(row: TaskRow, data: DataSource, limit: int | None, *, window: int | None) -> PairsData:
    """Read SCWS: the words alone, or each with `window` words on either side.

    With a window, the vector is that of the window, not of the word in it. With one vector per word, AvgSim over a
    word's prototypes (Huang et al. 2012) equals the score of `SCWS`.
    """
    located = data.locate(row.dataset, row.form)
    pairs, contexts = read_scws(located.files["ratings.txt"])
    check_rows(located, "test", len(pairs))
    if window is not None:
        first, second = zip(*contexts, strict=True)
        pairs = Pairs([c.window(window) for c in first], [c.window(window) for c in second], pairs.gold)
    return PairsData(located, {"test": pairs}, limit=limit)
