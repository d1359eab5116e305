"""Views of a batch's sentences, positives from the text itself, and groups of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from zoo.encoder import Corpus
from zoo.engine.backbone import Backbone
from zoo.engine.tokens import TokenTable, frame_of, tokenise
from zoo.errors import TrainingError
from zoo.training.augment import generator, make_augmenter

if TYPE_CHECKING:
    import torch

    from zoo.engine.backbone import Backbone


def augmented(
    backbone: Backbone, table: TokenTable, augment: tuple[str, ...], seed: int, *, keeps: int = 0, views: int = 1
) -> Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]:
    """Collate function: rows (n,) -> ids and mask of each view, by seed and batch alone."""
    augmenter = make_augmenter(backbone, augment, keeps)

    def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        rng, sentences = generator(seed, int(rows[0])), [table.row(int(i)) for i in rows]
        return tuple(part for _ in range(views) for part in augmenter.batch(sentences, rng))

    return batch


def side_by_side(views: Sequence[tuple[torch.Tensor, torch.Tensor]], pad_id: int) -> tuple[torch.Tensor, ...]:
    longest = max(ids.shape[1] for ids, _ in views)

    def stacked(parts: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
        return torch.stack([F.pad(part, (0, longest - part.shape[1]), value=fill) for part in parts], dim=1)

    ids, masks = zip(*views, strict=True)
    return stacked(ids, pad_id), stacked(masks, 0)


class Groups:
    """The sentences of each group, in full batches.

    `shared`: the negatives (a, b1) ... (a, bK) share the positive's sentence a; otherwise they are (b1, c1) ... (bK,
    cK), all of other sentences. `once`: no sentence comes twice in a pass; otherwise each is sampled independently.
    `batches`: at most those in `passes` over the corpus (None: all). Raises TrainingError for a corpus smaller than a
    batch.
    """

    def __init__(
        self,
        sentences: int,
        seed: int,
        negatives: int,
        of_batch: int,
        batches: int | None,
        passes: int,
        *,
        shared: bool,
        once: bool,
    ) -> None:
        self.sentences, self.seed = sentences, seed
        self.negatives, self.shared, self.once = negatives, shared, once
        self.of_batch = of_batch
        # A pair takes two sentences of a pass, as in sentence-transformers, though a positive needs one; one if shared.
        self.room = (1 + negatives) * (1 if shared else 2)
        self.width = self.room if shared else self.room - 1
        self.of_pass = sentences // (self.room * of_batch) * of_batch
        most = self.of_pass * passes
        self.count = most if batches is None else min(batches * of_batch, most)
        if sentences and not self.count:
            raise TrainingError(
                f"{sentences} sentences are fewer than the {self.room * of_batch} that a batch of pairs counts; pass a"
                " larger --corpus FILE or lower batch_size."
            )
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def drawn(self, group: int) -> NDArray[np.int64]:
        """Sentence numbers (width,): the positive's, the negatives' first (unless shared), their second."""
        if not self.once:
            return np.random.default_rng([self.seed, group, 1]).integers(self.sentences, size=self.width)
        epoch, index = divmod(group, self.of_pass)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch, 2]).permutation(self.sentences)
        return self._order[1][index * self.room : index * self.room + self.width]

    def pairs(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First (n, 1 + K), or (n, 1) if shared, and second sentences (n, 1 + K); positive first."""
        drawn = np.stack([self.drawn(int(group)) for group in groups])
        if self.shared:
            return drawn[:, :1], drawn
        cut = 1 + self.negatives
        return drawn[:, :cut], np.concatenate([drawn[:, :1], drawn[:, cut:]], axis=1)


Positives = Literal["neighbours", "halves", "crops", "mix"]

NEED_NEIGHBOURS = ("neighbours", "crops", "mix")
# A crop has a share, between these two, of so many sentences.
_STRETCH = 3
_SHARES = 0.3, 0.7


class PositivePairs:
    """Two views of each of `rows` (m,), the sentences with a positive.

    "neighbours": the sentence, and the next of its document. "halves": its tokens, divided at random. "crops": two
    contiguous pieces, each of 30 to 70 %, of up to three consecutive sentences (after arXiv 2508.03453). "mix":
    neighbours or halves, each half of the time. Raises MissingError for a corpus without documents, TrainingError if no
    sentence has a positive.
    """

    def __init__(self, corpus: Corpus, table: TokenTable, how: Positives) -> None:
        self.table, self.how = table, how
        number, lengths = np.arange(len(table)), table.lengths
        ends = corpus.document_ends() if how in NEED_NEIGHBOURS else number + 1
        following = np.minimum(number + 1, len(table) - 1)
        self.has_neighbour = (number + 1 < ends) & (lengths > 0) & (lengths[following] > 0)
        self.has_halves = lengths > 1
        self.stretch_ends = table.offsets[np.minimum(number + _STRETCH, ends)]
        eligible = {
            "neighbours": self.has_neighbour,
            "halves": self.has_halves,
            "crops": self.stretch_ends - table.offsets[:-1] > 1,
            "mix": self.has_neighbour | self.has_halves,
        }
        self.rows = np.flatnonzero(eligible[how])
        if not len(self.rows):
            need = "a sentence of known tokens beside it" if how == "neighbours" else "two known tokens"
            raise TrainingError(
                f"no sentence of {corpus.name} has {need}, so there is no positive by {how!r}; train on longer texts."
            )

    def views(self, rows: NDArray[np.int64], rng: np.random.Generator) -> tuple[TokenTable, TokenTable]:
        """Both views of `rows`; those with a neighbour come first."""
        if self.how == "crops":
            return self._crop(rows, rng), self._crop(rows, rng)
        beside = self.has_neighbour[rows] & (self.how != "halves")
        if self.how == "mix":
            beside &= ~self.has_halves[rows] | (rng.random(len(rows)) < 0.5)
        near, (first, second) = rows[beside], self._halves(rows[~beside], rng)
        first_view, second_parts = (
            TokenTable.joined([self.table.taken(near), first]),
            [self.table.taken(near + 1), second],
        )
        return first_view, TokenTable.joined(second_parts)

    def _halves(self, rows: NDArray[np.int64], rng: np.random.Generator) -> tuple[TokenTable, TokenTable]:
        table = self.table.taken(rows)
        order = np.lexsort((rng.random(len(table.ids)), np.repeat(np.arange(len(rows)), table.lengths)))
        shuffled, first = TokenTable(table.ids[order], table.offsets), (table.lengths + 1) // 2
        starts = table.offsets[:-1]
        return shuffled.stretches(starts, first), shuffled.stretches(starts + first, table.lengths - first)

    def _crop(self, rows: NDArray[np.int64], rng: np.random.Generator) -> TokenTable:
        starts = self.table.offsets[rows]
        sizes = self.stretch_ends[rows] - starts
        lengths = np.maximum((sizes * rng.uniform(*_SHARES, len(rows))).astype(np.int64), 1)
        return self.table.stretches(starts + (rng.random(len(rows)) * (sizes - lengths + 1)).astype(np.int64), lengths)


def paired_rows(
    backbone: Backbone, corpus: Corpus, how: Positives, longest: int, seed: int
) -> tuple[Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]], int]:
    """Collate function of ids and mask (n, 2, length), and the number of rows."""
    start, end = frame_of(backbone.tokenizer)
    inner = longest - len(start) - len(end)
    table = tokenise(backbone.tokenizer, corpus.sentences, max_length=None, add_special_tokens=False)
    pairs = PositivePairs(corpus, table.first(inner), how)

    def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        # It depends only on the batch, so that a resumed run draws the same.
        rng = generator(seed, int(rows[0]))
        views = [view.first(inner).framed(start, end) for view in pairs.views(pairs.rows[rows], rng)]
        padded = TokenTable.joined(views).padded(np.arange(2 * len(rows)), backbone.pad_id)
        return tuple(part.view(2, len(rows), -1).transpose(0, 1) for part in padded)

    return batch, len(pairs.rows)
