"""BERT-whitening (Su et al. 2021)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Encoder, FitReport, Run, Runtime, Traits, Vectors
from zoo.engine.narrow import row_products
from zoo.errors import ContractError, UsageError
from zoo.files import sha256_json
from zoo.formats.export import StockModules, dense
from zoo.methods.base import check_positive
from zoo.methods.transform import Transform, TransformRecipe, base_of
from zoo.plugins import register_method
from zoo.tensors import read_tensors, write_tensors

# A million vectors in float64 at once would take gigabytes.
_CHUNK = 65_536


@dataclass(frozen=True, kw_only=True)
class WhiteningRecipe(TransformRecipe):
    """Defaults of the released code for base models."""

    # The code: H1 + H12, twice this.
    layers: Literal["last", "first-last-h0", "first-last-h1", "top2"] = "first-last-h1"
    # Dimensions: 256 for base, 384 for large models. None: all; so does 256 where the vectors have fewer.
    k: int | None = 256
    eigenvalue_floor: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "k", "eigenvalue_floor")


def whitening(vectors: NDArray[np.floating[Any]], k: int | None, floor: float) -> tuple[Any, Any, int]:
    """Mean (d,), kernel W (d, k) and numerical rank, with x -> (x - mean) W; float64 (docs/methods.md).

    Sigma = U diag(lambda) U^T (covariance over n - 1), W = U diag(lambda)^(-1/2), columns by decreasing eigenvalue.
    Columns of an eigenvalue below `floor` times the largest are zero, so a singular covariance stays finite.
    """
    x = np.asarray(vectors)
    if len(x) < 2:
        raise ContractError(f"whitening needs at least 2 vectors to fit, got {len(x)}; give it a corpus.")
    mean = x.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), _CHUNK):
        centred = x[start : start + _CHUNK] - mean
        covariance += centred.T @ centred
    eigenvalues, eigenvectors = np.linalg.eigh(covariance / (len(x) - 1))
    order = np.argsort(eigenvalues)[::-1]
    eigenvalues, eigenvectors = eigenvalues[order], eigenvectors[:, order]
    significant = eigenvalues > floor * max(float(eigenvalues[0]), np.finfo(np.float64).tiny)
    scale = np.zeros_like(eigenvalues)
    scale[significant] = eigenvalues[significant] ** -0.5
    return mean, (eigenvectors * scale)[:, :k], int(significant.sum())


@register_method("whitening")
class Whitening(Transform[WhiteningRecipe]):
    """Whitened, L2-normalised vectors of k dimensions; fitted on a corpus, on NLI pairs or on each task's texts.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = Whitening(Whitening.Recipe(k=8), Runtime())
        >>> _ = encoder.fit(Corpus("toy", [f"sentence number {i} of a toy" for i in range(40)]), run=Run())
        >>> encoder.encode(["a small dog"]).shape
        (1, 8)
    """

    def __init__(self, recipe: WhiteningRecipe, runtime: Runtime, base: Encoder | None = None) -> None:
        super().__init__(recipe, runtime, base)
        width = self.base.dim
        if recipe.k is not None and recipe.k > width and recipe.k != WhiteningRecipe.k:
            raise UsageError(
                f"k={recipe.k}, but the vectors have only {width} dimensions; give a k of at most {width}."
            )
        self.dim = min(recipe.k or width, width)
        # Before fit(): the first k dimensions, so that an unfitted encoder works.
        self.mean = np.zeros(width)
        self.kernel = np.eye(width)[:, : self.dim]
        self.rank: int | None = None

    @classmethod
    def traits(cls, recipe: WhiteningRecipe) -> Traits:
        """Exported as a linear layer if the base is, but not with `fit_on: target` (a map per task)."""
        _, base_cls, base_recipe = base_of(recipe)
        exports = base_cls.traits(base_recipe).exports and recipe.fit_on != "target"
        return replace(super().traits(recipe), exports=exports)

    def stock_modules(self) -> StockModules:
        from sentence_transformers.sentence_transformer.modules import Normalize

        base: StockModules = self.base.stock_modules()  # type: ignore[attr-defined]  # as its traits say
        kernel, shift = self.kernel.T, -self.mean @ self.kernel
        linear = dense(torch.tensor(kernel), torch.tensor(shift), "Identity")
        return replace(base, after=[*base.after, linear, Normalize()])

    def learn(self, vectors: Vectors, run: Run) -> FitReport:
        self.mean, self.kernel, self.rank = whitening(vectors, self.recipe.k, self.recipe.eigenvalue_floor)
        return FitReport(fitted=True, sentences=len(vectors), facts=self.facts())

    def transform(self, vectors: Vectors) -> Vectors:
        """(x - mean) W, L2-normalised; norms are at least 1e-8, as in the Keras code."""
        y = row_products(vectors.astype(np.float64) - self.mean, self.kernel)
        normalised: Vectors = (y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-8)).astype(np.float32)
        return normalised

    def parameters(self) -> int:
        return self.base.parameters() + self.mean.size + self.kernel.size

    def fitted_rank(self) -> int | None:
        """Rank of a map fitted to a task's texts, at most k; the base's if larger."""
        own_rank = None if self.recipe.fit_on != "target" or self.rank is None else min(self.rank, self.dim)
        return max((rank for rank in (own_rank, self.base.fitted_rank()) if rank is not None), default=None)

    def facts(self) -> dict[str, Any]:
        return {"k": self.dim, "rank": self.rank, **super().facts()}

    def save(self, folder: Path) -> None:
        super().save(folder)
        tensors = {"mean": torch.from_numpy(self.mean), "kernel": torch.from_numpy(self.kernel)}
        write_tensors(folder / "whitening.safetensors", tensors, {"rank": str(self.rank)})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        tensors, metadata = read_tensors(folder / "whitening.safetensors")
        encoder.mean, encoder.kernel = tensors["mean"].numpy(), tensors["kernel"].numpy()
        encoder.rank = None if metadata["rank"] == "None" else int(metadata["rank"])
        return encoder

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.mean.tobytes() + np.ascontiguousarray(self.kernel).tobytes())
        return sha256_json([super().fingerprint(), digest.hexdigest()])
