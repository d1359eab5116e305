"""Word similarity and relatedness: Spearman of cosine over pairs that people scored (docs/protocol.md).

The files are those of eval-word-vectors (lower-cased, except names in the WS-353 files); SCWS is from its authors. A
word is encoded alone, like any text. BURT averages SimLex, the two parts of WS-353, MEN and SCWS: the suite `words`.
"""

from __future__ import annotations

from functools import partial

from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.words import read_scws, read_word_pairs
from benchmark.data.sources import DataSource
from benchmark.tasks.base import PairsData, TaskRow, check_rows

_WINDOW = 5  # words on either side: the context of an occurrence in Huang et al. (2012, section 3)


def word_pairs(row: TaskRow, data: DataSource, limit: int | None, *, highest: float = 10) -> PairsData:
    """Read all pairs, scored up to `highest`; nothing is trained, so that all of them are test pairs."""
    located = data.locate(row.dataset, row.form)
    (path,) = located.files.values()
    pairs = read_word_pairs(path, highest)
    check_rows(located, "test", len(pairs))
    return PairsData(located, {"test": pairs}, limit=limit)


def contextual(row: TaskRow, data: DataSource, limit: int | None, *, window: int | None) -> PairsData:
    """Read all pairs of SCWS: the words alone, or each with `window` words on either side.

    An encoder returns one vector per text, so that with a window this is the vector of the window, not of the word in
    it. With one vector per word, AvgSim over a word's prototypes (Huang et al. 2012) equals the score of `SCWS`.
    """
    located = data.locate(row.dataset, row.form)
    pairs, contexts = read_scws(located.files["ratings.txt"])
    check_rows(located, "test", len(pairs))
    if window is not None:
        first, second = zip(*contexts, strict=True)
        pairs = Pairs([c.window(window) for c in first], [c.window(window) for c in second], pairs.gold)
    return PairsData(located, {"test": pairs}, limit=limit)


# Name, title, the highest score of the human scale, and other names. Each data set has the task's name.
_WORDS: tuple[tuple[str, str, float, tuple[str, ...]], ...] = (
    ("SimLex-999", "SimLex-999", 10, ("SimLex",)),  # similarity, not relatedness; nouns, verbs, adjectives
    ("WS-353", "WordSim-353", 10, ("WordSim-353", "WordSim")),  # similar and related words together
    ("WS-353-sim", "WordSim-353, similarity", 10, ("WS-sim",)),  # the similar pairs and the unrelated ones
    # The related pairs and the unrelated ones, which are in both parts.
    ("WS-353-rel", "WordSim-353, relatedness", 10, ("WS-rel",)),
    ("MEN", "MEN", 50, ()),  # relatedness; all 3,000 pairs, in their lemma form as eval-word-vectors has them
    ("RG-65", "Rubenstein-Goodenough 65", 4, ()),  # nouns
    ("MC-30", "Miller-Charles 30", 4, ()),  # 30 pairs of RG-65, scored again
    ("RW", "Stanford rare words", 10, ("RareWords",)),  # inflected and derived forms
    ("MTurk-287", "MTurk-287", 5, ()),  # relatedness, crowd-sourced by Radinsky et al.
    ("MTurk-771", "MTurk-771", 5, ()),  # relatedness, crowd-sourced by Halawi et al.
    ("SimVerb-3500", "SimVerb-3500", 10, ("SimVerb",)),  # similarity of verbs; development and test pairs together
)

ROWS = (
    *(
        TaskRow(name, title, name, partial(word_pairs, highest=highest), aliases=aliases)
        for name, title, highest, aliases in _WORDS
    ),
    # SCWS without context: the usual score for one vector per word.
    TaskRow("SCWS", "SCWS, words alone", "SCWS", partial(contextual, window=None)),
    TaskRow("SCWS-context", "SCWS, words with five words on either side", "SCWS", partial(contextual, window=_WINDOW)),
)
