"""BURT (Li and Zhao 2020): words, phrases and sentences in one space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zoo.encoder import NLI_LABELS, PHRASE_LABELS, Corpus, Run, Traits
from zoo.errors import TrainingError
from zoo.methods.base import check_positive
from zoo.methods.sbert import SBERT, SBERTRecipe
from zoo.plugins import register_method
from zoo.training.siamese import PairTask, labelled_task

_PHRASE_PAIRS = "--pairs nli+FILE with a phrasal PPDB 2.0 pack, or --pairs nli+ppdb2-human"


@dataclass(frozen=True, kw_only=True)
class BURTRecipe(SBERTRecipe):
    """The defaults are the paper's (section 3), else SBERT's.

    It does not state learning rate, steps (here one pass over the NLI pairs) and length. All losses have equal weight.
    """

    # The first has every second batch.
    objectives: tuple[Literal["nli", "pi", "ptc"], ...] = ("nli", "pi", "ptc")
    negatives: int = 3
    # Classes of the positive pairs: section 5.3 states more than a million positives, which only all three classes
    # together give (3 x 354,000).
    paraphrases: tuple[str, ...] = PHRASE_LABELS
    adam_betas: tuple[float, float] = (0.9, 0.98)
    adam_epsilon: float = 1e-9
    dropout: float | None = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "negatives")
        if not self.objectives or len(set(self.objectives)) < len(self.objectives) or "nli" in self.objectives[1:]:
            raise ValueError("objectives must name each of nli, pi, ptc at most once, and nli first if at all")
        if not self.paraphrases or not set(self.paraphrases) <= set(PHRASE_LABELS):
            raise ValueError(f"paraphrases must be some of {', '.join(PHRASE_LABELS)}")


def other_than(a: NDArray[np.int64], b: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sample uniformly from 0 .. count - 1 without a[i] and b[i]; a and b must differ, count > 2."""
    drawn = rng.integers(count - 2, size=a.shape)
    low, high = np.minimum(a, b), np.maximum(a, b)
    drawn += drawn >= low
    drawn += drawn >= high
    return drawn


def paraphrase_identification(
    positives: PairTask, dataset: PairTask, corpus: Corpus, negatives: int, seed: int
) -> PairTask:
    """The task (T, S_0) against (T, S_1) ... (T, S_k): each positive pair, then its k negatives (section 3.2).

    S_j is uniform among the data set's distinct phrases other than T and S_0, sampled once: every epoch has the same
    pairs. Raises TrainingError if there is no such phrase.
    """
    number: dict[str, int] = {}

    def numbered(texts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([number.setdefault(corpus.sentences[i], len(number)) for i in texts], dtype=np.int64)

    texts = np.concatenate([dataset.first, dataset.second])
    phrases = numbered(texts)
    text_of = np.zeros(len(number), dtype=np.int64)
    text_of[phrases] = texts
    target, paraphrase = numbered(positives.first), numbered(positives.second)
    differing = target != paraphrase
    target, paraphrase = target[differing], paraphrase[differing]
    if len(number) < 3 or not len(target):
        raise TrainingError(f"{corpus.name} has too few phrases to draw a negative from: BURT needs {_PHRASE_PAIRS}.")
    shape = (len(target), negatives)
    a, b = (np.broadcast_to(side[:, None], shape) for side in (target, paraphrase))
    drawn = other_than(a, b, len(number), np.random.default_rng([seed, negatives]))
    second = np.concatenate([paraphrase[:, None], drawn], axis=1)
    labels = np.zeros_like(second)
    labels[:, 0] = 1
    return PairTask("PI", 2, text_of[target].repeat(1 + negatives), text_of[second].ravel(), labels.ravel())


@register_method("burt")
class BURT(SBERT[BURTRecipe]):
    """BURT: one encoder, three heads; at evaluation the pooled states of a word, phrase or sentence.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = BURT(BURT.Recipe(batch_size=2), Runtime())
        >>> pairs = ["a dog runs", "an animal moves", "a dog runs", "it sleeps", "big dog", "large dog", "red", "blue"]
        >>> labels = ["entailment", "contradiction", "ppdb:equivalence", "ppdb:independent"]
        >>> encoder.fit(Corpus("toy", pairs, labels), run=Run(seed=1)).facts
        {'pairs': {'NLI': 2, 'PI': 8, 'PTC': 2}}
    """

    @classmethod
    def traits(cls, recipe: BURTRecipe) -> Traits:
        traits = super().traits(recipe)
        several = len(recipe.objectives)
        return replace(traits, training_passes=traits.training_passes * min(several, 2))

    def tasks(self, corpus: Corpus | None, run: Run) -> list[PairTask]:
        """The recipe's objectives; raises TrainingError for an objective without pairs."""
        tasks = []
        for name in self.recipe.objectives:
            if name == "nli":
                tasks.append(labelled_task("NLI", corpus, NLI_LABELS, "--pairs nli"))
            elif name == "ptc":
                tasks.append(labelled_task("PTC", corpus, PHRASE_LABELS, _PHRASE_PAIRS))
            else:
                positives = labelled_task("PI", corpus, self.recipe.paraphrases, _PHRASE_PAIRS, several=False)
                everything = labelled_task("PI", corpus, PHRASE_LABELS, _PHRASE_PAIRS, several=False)
                assert corpus is not None
                task = paraphrase_identification(positives, everything, corpus, self.recipe.negatives, run.seed)
                tasks.append(task)
        return tasks
