"""Groups of one positive and K negative pairs; a group depends only on seed and number, so resuming needs no state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zoo.errors import TrainingError


class Groups:
    """The sentences of each group; there are only whole batches of groups.

    `shared`: the negatives (a, b1) ... (a, bK) share the positive's sentence a; otherwise they are (b1, c1) ... (bK,
    cK), all of other sentences. `once`: no sentence comes twice in a pass; otherwise each is drawn independently.
    `batches` is the number of batches, limited to those in `passes` over the corpus; None: the limit. Raises
    TrainingError for a corpus with fewer sentences than a batch needs.
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
        """Return sentence numbers (width,): the positive's, the negatives' first (unless shared), their second."""
        if not self.once:
            return np.random.default_rng([self.seed, group, 1]).integers(self.sentences, size=self.width)
        epoch, index = divmod(group, self.of_pass)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch, 2]).permutation(self.sentences)
        return self._order[1][index * self.room : index * self.room + self.width]

    def pairs(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return first sentences (n, 1 + K), or (n, 1) if shared, and second sentences (n, 1 + K); positive first."""
        drawn = np.stack([self.drawn(int(group)) for group in groups])
        if self.shared:
            return drawn[:, :1], drawn
        cut = 1 + self.negatives
        return drawn[:, :cut], np.concatenate([drawn[:, :1], drawn[:, cut:]], axis=1)
