"""A method of your own: it runs as it is; put your idea into `fit` and `encode`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from zoo import Corpus, DevScore, FitReport, Run, Runtime, Traits, register_method
from zoo.encoder import Start, Vectors
from zoo.engine.backbone import Backbone
from zoo.methods.base import BackboneEncoder, BackboneRecipe
from zoo.methods.pooled import pooled_start


@dataclass(frozen=True, kw_only=True)
class MyMethodRecipe(BackboneRecipe):
    """The settings, beside those of every backbone; a run changes one with my-method:directions=2."""

    # The paper removes dim / 100 directions from word vectors.
    directions: int = 1


@register_method("my-method", family="transforms", paper="All-but-the-Top")  # lists and citations say this of it
class MyMethod(BackboneEncoder[MyMethodRecipe]):
    """The average of the last layer without the mean and the main directions of the corpus (Mu & Viswanath 2018).

    Examples:
        >>> sentences = ["A dog barks.", "A cat sleeps.", "It rains.", "We sing a song."]
        >>> encoder = MyMethod(MyMethodRecipe(), Runtime())
        >>> report = encoder.fit(Corpus("toy", sentences), run=Run())
        >>> vectors = encoder.encode(sentences)
        >>> vectors.shape == (4, encoder.dim), bool(abs(vectors.mean(axis=0)).max() < 1e-3)
        (True, True)
    """

    pooling = "last"

    def __init__(self, recipe: MyMethodRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.map = torch.nn.Linear(self.dim, self.dim)
        torch.nn.init.eye_(self.map.weight)  # nothing changes before fit; a start drawn at random would be another
        torch.nn.init.zeros_(self.map.bias)  # method in each run, because a run encodes a few texts before it fits

    def parts(self) -> dict[str, torch.nn.Module]:
        """Return what is learned beside the backbone, by name: it is saved, loaded and counted."""
        return {"map": self.map}

    @classmethod
    def traits(cls, recipe: MyMethodRecipe) -> Traits:
        """Return what a run has to know: `fit` needs sentences without labels, and nothing depends on the seed."""
        return Traits(needs_corpus=True)

    @classmethod
    def start(cls, recipe: MyMethodRecipe) -> Start | None:
        """Return what `fit` starts from, the average itself: a run measures it too and prints what was gained."""
        return pooled_start(recipe, "last")

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Learn the map from the corpus; `run.seed` and `dev_score(self)` are for methods that train by steps."""
        assert corpus is not None
        vectors = self.pooled(corpus.sentences)
        mean, (_, axes) = vectors.mean(axis=0), np.linalg.eigh(np.cov(vectors.T))
        common = axes[:, self.dim - self.recipe.directions :]  # eigh sorts its columns by variance, the largest last
        kept = np.eye(self.dim) - common @ common.T
        self.map.load_state_dict({"weight": torch.tensor(kept), "bias": torch.tensor(-mean @ kept)})
        return FitReport(fitted=True, sentences=len(corpus.sentences))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) float32 in the order of `texts`."""
        return np.asarray(self.map(torch.tensor(self.pooled(texts))).detach())

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text (n,) whether it has a letter or a digit; the benchmark gives others the zero vector."""
        return np.array([any(map(str.isalnum, text)) for text in texts], np.bool_)
