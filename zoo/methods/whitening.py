"""BERT-whitening (Su et al. 2021): a linear map that makes the covariance of sentence vectors the identity."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.backbone import Backbone
from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Traits, Vectors
from zoo.errors import ContractError
from zoo.files import read_tensors, sha256_json, write_tensors
from zoo.methods.base import positive
from zoo.methods.pooled import Average, AverageRecipe


@dataclass(frozen=True, kw_only=True)
class WhiteningRecipe(AverageRecipe):
    """Defaults of the released code for a base-size model."""

    layers: Literal["last", "first-last-h0", "first-last-h1", "top2"] = "first-last-h1"  # H1 + H12; cosine ignores /2
    k: int | None = 256  # dimensions kept: 256 for base, 384 for large; None: all
    fit_on: Literal["corpus", "target"] = "corpus"  # target: all unlabelled texts of the evaluated data set
    max_length: int | None = 64
    eigenvalue_floor: float = 1e-6  # of the largest; directions below it carry no variance and are dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "k", "eigenvalue_floor")


def whitening(vectors: NDArray[np.floating[Any]], k: int | None, floor: float) -> tuple[Any, Any, int]:
    """Return mean (d,), kernel W (d, k) and numerical rank, with x -> (x - mean) W; float64 (METHODS section 2).

    Sigma = U diag(lambda) U^T (n - 1 in the covariance), W = U diag(lambda)^(-1/2), columns by falling eigenvalue.
    Columns whose eigenvalue is below `floor` times the largest are zero, so a singular covariance stays finite.
    """
    x = np.asarray(vectors, dtype=np.float64)
    if len(x) < 2:
        raise ContractError(f"whitening needs at least 2 vectors to fit, got {len(x)}; give it a corpus.")
    mean = x.mean(axis=0)
    eigenvalues, eigenvectors = np.linalg.eigh(np.cov(x, rowvar=False))
    order = np.argsort(eigenvalues)[::-1]
    eigenvalues, eigenvectors = eigenvalues[order], eigenvectors[:, order]
    kept = eigenvalues > floor * max(float(eigenvalues[0]), np.finfo(np.float64).tiny)
    scale = np.zeros_like(eigenvalues)
    scale[kept] = eigenvalues[kept] ** -0.5
    return mean, (eigenvectors * scale)[:, :k], int(kept.sum())


class Whitening(Average):
    """Whitened averages, k dimensions, L2-normalised; fitted on a corpus, or on the texts of each task ("target").

    Example:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = Whitening(Whitening.Recipe(k=8), Runtime())
        >>> _ = encoder.fit(Corpus("toy", [f"sentence number {i} of a toy" for i in range(40)]), run=Run())
        >>> encoder.encode(["a small dog"]).shape
        (1, 8)
    """

    Recipe: ClassVar[type] = WhiteningRecipe

    def __init__(self, recipe: Any, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.dim = min(recipe.k or self.backbone.dim, self.backbone.dim)
        # Until fitted: centred on nothing, cut to k; so that an unfitted encoder is valid, if useless.
        self.mean = np.zeros(self.backbone.dim)
        self.kernel = np.eye(self.backbone.dim)[:, : self.dim]
        self.rank: int | None = None

    @classmethod
    def traits(cls, recipe: WhiteningRecipe) -> Traits:
        """A corpus, or the target's own texts (transductive)."""
        return Traits(needs_corpus=recipe.fit_on == "corpus", transductive=recipe.fit_on == "target")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return (x - mean) W, L2-normalised with norms clipped at 1e-8 as the Keras code does."""
        y = (self.pooled(texts).astype(np.float64) - self.mean) @ self.kernel
        normalised: Vectors = (y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-8)).astype(np.float32)
        return normalised

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Fit mean and kernel on the corpus (`fit_on: corpus`); with `target` there is nothing to do before a task."""
        if self.recipe.fit_on == "target":
            return FitReport()
        if corpus is None:
            raise ContractError("whitening with fit_on: corpus needs a corpus; pass --corpus.")
        vectors = self.pooled(corpus.sentences)
        self.mean, self.kernel, self.rank = whitening(vectors, self.recipe.k, self.recipe.eigenvalue_floor)
        return FitReport(fitted=True, sentences=len(corpus.sentences), facts=self.facts())

    def adapt(self, texts: Sequence[str]) -> Whitening:
        """With `target`: a copy (sharing the backbone) whitened on `texts`, both sides of all splits."""
        if self.recipe.fit_on == "corpus":
            return self
        fitted = copy.copy(self)
        fitted.mean, fitted.kernel, fitted.rank = whitening(
            self.pooled(texts), self.recipe.k, self.recipe.eigenvalue_floor
        )
        return fitted

    def facts(self) -> dict[str, Any]:
        """Return k and the numerical rank of the covariance."""
        return {"k": self.dim, "rank": self.rank}

    def save(self, folder: Path) -> None:
        """Write the map beside the backbone."""
        super().save(folder)
        tensors = {"mean": torch.from_numpy(self.mean), "kernel": torch.from_numpy(self.kernel)}
        write_tensors(folder / "whitening.safetensors", tensors, {"rank": str(self.rank)})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        """Read what `save` wrote."""
        encoder = super().load(folder, runtime)
        tensors, metadata = read_tensors(folder / "whitening.safetensors")
        encoder.mean, encoder.kernel = tensors["mean"].numpy(), tensors["kernel"].numpy()
        encoder.rank = None if metadata["rank"] == "None" else int(metadata["rank"])
        return encoder

    def fingerprint(self) -> str:
        """Return the sha256 of the backbone's fingerprint and the fitted map."""
        digest = hashlib.sha256(self.mean.tobytes() + np.ascontiguousarray(self.kernel).tobytes())
        return sha256_json([super().fingerprint(), digest.hexdigest()])
