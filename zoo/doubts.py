"""Training texts that teach nothing are refused; what teaches little in others is said before a training."""

from __future__ import annotations

from collections.abc import Sequence

from zoo.encoder import Corpus
from zoo.errors import UsageError

# A share of the rows: running text repeats fewer.
_MANY = 0.1


def doubts_of(corpus: Corpus) -> list[str]:
    """Return a sentence for each thing in a training text that teaches nothing; most texts have none.

    Args:
        corpus: Sentences, or pairs of them with labels or scores.

    Raises:
        UsageError: All rows are equal, so that nothing can be told apart.
    """
    texts = [" ".join(text.split()) for text in corpus.sentences]
    if corpus.labels is None and corpus.scores is None:
        return _repeats(corpus, texts, "sentence")
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    doubts = _repeats(corpus, pairs, "pair")
    if corpus.scores is not None and len(set(corpus.scores)) == 1:
        doubts.append(f"all pairs of {corpus.name} have the score {corpus.scores[0]:g}, so that none is above another")
    labelled = list(zip(pairs, corpus.labels or (), strict=False))
    positives = {pair for pair, label in labelled if label == "entailment"}
    negatives = [pair for pair, label in labelled if label == "contradiction"]
    if count := sum(pair in positives or pair[0] == pair[1] for pair in negatives):
        doubts.append(
            f"{count:,} of {len(negatives):,} negatives of {corpus.name} equal a positive or their own text, so that"
            " training draws together and pushes apart the same texts"
        )
    return doubts


def _repeats(corpus: Corpus, rows: Sequence[object], unit: str) -> list[str]:
    distinct = len(set(rows))
    if rows and distinct == 1:
        raise UsageError(
            f"{corpus.name} has one distinct {unit} ({len(rows):,} in all), which trains nothing: a loss compares"
            f" different texts. Give a text with more, or leave it out."
        )
    if len(rows) - distinct <= _MANY * len(rows):
        return []
    return [
        f"{corpus.name} has {distinct:,} distinct {unit}s among {len(rows):,}; equal ones in a batch are pushed apart"
        " as if they differed"
    ]
