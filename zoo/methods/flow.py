"""BERT-flow (Li et al. 2020): an invertible map of sentence vectors to a Gaussian, fitted by maximum likelihood."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch

from zoo.encoder import Encoder, FitReport, Run, Runtime, Vectors
from zoo.engine.narrow import all_rows_alike
from zoo.errors import ContractError
from zoo.files import sha256_json
from zoo.methods.base import check_positive, count_parameters
from zoo.methods.transform import Transform, TransformRecipe
from zoo.modules.glow import Glow, Mixing
from zoo.plugins import register_method
from zoo.tensors import read_tensors, write_tensors
from zoo.training.loop import Objective, train
from zoo.training.settings import TrainSettings

_CHUNK = 16_384
_SAMPLE = 10_000


@dataclass(frozen=True, kw_only=True)
class FlowRecipe(TransformRecipe):
    """The defaults are the paper's (table 7 and appendix B), with the schedule of its NLI setting."""

    # The paper's "last2avg".
    layers: Literal["last", "first-last-h0", "first-last-h1", "top2"] = "top2"
    levels: int = 2
    depth: int = 3
    width: int = 32
    # "To avoid numerical errors" of an invertible 1x1 convolution (section 3.2).
    mixing: Mixing = "permutation"
    residual: bool = True
    # For NLI; a target data set has 1e-3 and one epoch. The rate is constant.
    learning_rate: float = 2e-5
    epochs: float = 0.15
    batch_size: int = 64
    weight_decay: float = 0.0
    adam_epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "levels", "depth", "width", "learning_rate", "epochs", "batch_size")
        check_positive(self, "adam_epsilon")


class NegativeLogLikelihood(Objective):
    """-log p(u) / (ln 2 * dim): bits per dimension, mean over the batch."""

    def __init__(self, glow: Glow) -> None:
        super().__init__()
        self.glow = glow

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """Vectors (n, dim) -> scalar loss, float32 also under autocast: bf16 is too coarse for a density."""
        with torch.autocast(u.device.type, enabled=False):
            return -self.glow.log_prob(u.float()).mean() / (math.log(2) * self.glow.dim)


@register_method("flow")
class Flow(Transform[FlowRecipe]):
    """z = f(u) with z ~ N(0, I): Glow on the frozen encoder's vectors; z is compared by cosine.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = Flow(Flow.Recipe(epochs=1.0, learning_rate=1e-3), Runtime())
        >>> report = encoder.fit(Corpus("toy", [f"sentence number {i} of a toy" for i in range(128)]), run=Run(seed=1))
        >>> report.steps, encoder.encode(["a small dog"]).shape
        (2, (1, 384))
    """

    stochastic = True

    def __init__(self, recipe: FlowRecipe, runtime: Runtime, base: Encoder | None = None) -> None:
        super().__init__(recipe, runtime, base)
        self.glow = self._new(seed=0)
        self.bits: dict[str, float] = {}

    def _new(self, seed: int) -> Glow:
        recipe = self.recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            glow = Glow(
                self.base.dim,
                levels=recipe.levels,
                depth=recipe.depth,
                width=recipe.width,
                mixing=recipe.mixing,
                residual=recipe.residual,
            )
        return glow.to(self.runtime.device).eval()

    def learn(self, vectors: Vectors, run: Run) -> FitReport:
        """Maximise log p of the vectors (Eq. 4); the first training batch initialises the actnorms."""
        recipe, rows = self.recipe, len(vectors)
        if rows < 2:
            raise ContractError(f"flow needs at least 2 vectors to fit, got {rows}; give it a corpus.")
        glow = self._new(run.seed)
        first = np.random.default_rng([run.seed, 0]).permutation(rows)[: recipe.batch_size]
        glow.initialise(torch.from_numpy(vectors[first]).to(self.runtime.device))
        objective = NegativeLogLikelihood(glow)
        start = self._bits_per_dim(objective, vectors)
        steps = max(round(recipe.epochs * math.ceil(rows / recipe.batch_size)), 1)
        settings = TrainSettings(
            batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            epochs=1,
            steps=steps,
            eval_every=steps,
            schedule="constant",
            weight_decay=recipe.weight_decay,
            adam_epsilon=recipe.adam_epsilon,
        )
        report = train(
            objective,
            lambda batch: (torch.from_numpy(vectors[batch]),),
            rows,
            settings,
            runtime=self.runtime,
            run=run,
            backbone=glow,
            dev_score=None,
        )
        self.glow = glow
        self.bits = {"bits_per_dim_start": start, "bits_per_dim": self._bits_per_dim(objective, vectors)}
        return replace(report, facts=self.facts())

    def _bits_per_dim(self, objective: NegativeLogLikelihood, vectors: Vectors) -> float:
        with torch.inference_mode():
            return round(float(objective(torch.from_numpy(vectors[:_SAMPLE]).to(self.runtime.device))), 6)

    def transform(self, vectors: Vectors) -> Vectors:
        z = np.empty_like(vectors)
        with torch.inference_mode(), all_rows_alike(torch.device(self.runtime.device)):
            for start in range(0, len(vectors), _CHUNK):
                rows = slice(start, start + _CHUNK)
                z[rows] = self.glow(torch.from_numpy(vectors[rows]).to(self.runtime.device))[0].cpu().numpy()
        return z

    def parameters(self) -> int:
        return self.base.parameters() + count_parameters(self.glow)

    def facts(self) -> dict[str, Any]:
        return {**self.bits, **super().facts()}

    def save(self, folder: Path) -> None:
        super().save(folder)
        metadata = {"seed": str(self.seed), "bits": json.dumps(self.bits)}
        write_tensors(folder / "flow.safetensors", self.glow.state_dict(), metadata)

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        tensors, metadata = read_tensors(folder / "flow.safetensors")
        encoder.glow.load_state_dict(tensors)
        encoder.seed, encoder.bits = int(metadata["seed"]), json.loads(metadata["bits"])
        return encoder

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, tensor in sorted(self.glow.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return sha256_json([super().fingerprint(), digest.hexdigest(), self.seed])
