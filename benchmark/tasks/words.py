"""Word similarity and relatedness: Spearman of cosine over pairs that people scored (docs/protocol.md).

The files are eval-word-vectors' (lower-cased; only the WS-353 files keep names' capitals), SCWS its authors'. A word is
a text like any other, encoded alone. BURT's average is that of SimLex, WS-353's two parts, MEN and SCWS: suite `words`.
"""

from __future__ import annotations

from typing import ClassVar

from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.words import InContext, read_scws, read_word_pairs
from benchmark.data.sources import DataSource
from benchmark.tasks.base import PairsData, Task
from benchmark.tasks.sts import check_rows

_WINDOW = 5  # words on either side, the context that Huang et al. (2012, section 3) give an occurrence


class _Words(Task):
    highest: ClassVar[float] = 10  # the top of the people's scale

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all pairs; nothing is trained, so all are the test."""
        located = data.locate(self.dataset, self.form)
        (path,) = located.files.values()
        pairs = read_word_pairs(path, self.highest)
        check_rows(located, "test", len(pairs))
        return PairsData(located, {"test": pairs}, limit=limit)


class SimLex999(_Words):
    """Similarity, not relatedness; nouns, verbs, adjectives."""

    title, dataset = "SimLex-999", "SimLex-999"


class WordSim353(_Words):
    """All of WS-353, similar and related words together."""

    title, dataset = "WordSim-353", "WS-353"


class WordSim353Similarity(_Words):
    """The pairs of WS-353 that are similar, or unrelated."""

    title, dataset = "WordSim-353, similarity", "WS-353-sim"


class WordSim353Relatedness(_Words):
    """The pairs of WS-353 that are related, or unrelated; those unrelated are in both parts."""

    title, dataset = "WordSim-353, relatedness", "WS-353-rel"


class MEN(_Words):
    """Relatedness; all 3,000 pairs, in their lemma form as eval-word-vectors has them."""

    title, dataset, highest = "MEN", "MEN", 50


class RG65(_Words):
    """Rubenstein and Goodenough's nouns."""

    title, dataset, highest = "Rubenstein-Goodenough 65", "RG-65", 4


class MC30(_Words):
    """Miller and Charles's 30 of RG-65, scored anew."""

    title, dataset, highest = "Miller-Charles 30", "MC-30", 4


class RareWords(_Words):
    """Stanford's rare words, inflected and derived forms."""

    title, dataset = "Stanford rare words", "RW"


class MTurk287(_Words):
    """Relatedness, crowd-sourced by Radinsky et al."""

    title, dataset, highest = "MTurk-287", "MTurk-287", 5


class MTurk771(_Words):
    """Relatedness, crowd-sourced by Halawi et al."""

    title, dataset, highest = "MTurk-771", "MTurk-771", 5


class SimVerb3500(_Words):
    """Verb similarity; development and test pairs together."""

    title, dataset = "SimVerb-3500", "SimVerb-3500"


class SCWS(Task):
    """Stanford's contextual word similarities, each word alone: how tables of one vector a word score it."""

    title, dataset = "SCWS, words alone", "SCWS"

    def load(self, data: DataSource, limit: int | None = None) -> PairsData:
        """Read all pairs."""
        located = data.locate(self.dataset, self.form)
        words, contexts = read_scws(located.files["ratings.txt"])
        check_rows(located, "test", len(words))
        return PairsData(located, {"test": self.texts(words, contexts)}, limit=limit)

    @staticmethod
    def texts(words: Pairs, contexts: list[tuple[InContext, InContext]]) -> Pairs:
        """Return the words."""
        return words


class SCWSContext(SCWS):
    """SCWS, each word as a text of itself and five words on either side.

    An encoder gives a text one vector, so this is the vector of the window, not of the word inside it; AvgSim over
    several prototypes of a word (Huang et al. 2012) is, for one vector a word, the score of `SCWS`.
    """

    title = "SCWS, words with five words on either side"

    @staticmethod
    def texts(words: Pairs, contexts: list[tuple[InContext, InContext]]) -> Pairs:
        """Return the windows."""
        first, second = zip(*contexts, strict=True)
        return Pairs([c.window(_WINDOW) for c in first], [c.window(_WINDOW) for c in second], words.gold)
