"""The recipe of a pretraining: one frozen dataclass, read from YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import resource_folder
from zoo.recipes import build
from zoo.selection import split_overrides
from zoo_bench_papers.pretraining.starts import StartRecipe

TRAINED_TOKENIZERS = ("byte-level-bpe", "unigram")
"""Values of `tokenizer` for a tokenizer that is trained on the text: RoBERTa's and ALBERT's."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(StartRecipe):
    """All settings that the trained weights depend on; `zoo-bench pretrain` reads them from YAML."""

    architecture: Literal["bert", "roberta", "albert", "gpt2"] = "bert"
    # That of a backbone, or trained here: byte-level-bpe, unigram.
    tokenizer: str = "zoo-small"
    vocabulary: int = 20_000
    tokenizer_sentences: int = 500_000
    layers: int = 4
    width: int = 256
    heads: int = 4
    inner: int = 1024
    # ALBERT's width of the token vectors. None: the layers' width.
    embedding: int | None = None
    # No text is seen often enough to be memorised.
    dropout: float = 0.0
    tie_embeddings: bool = True
    # A backbone to continue from, with its shape and tokenizer. None: new weights.
    begin_from: str | None = None
    row_length: int = 64
    # 0.15 in BERT; small models learn a little sooner with more.
    mask_rate: float = 0.2
    held_out_rows: int = 2048
    batch_rows: int = 32
    steps: int = 8000
    # The last steps, in which the rate falls to 0. None: all after the warm-up.
    decay_steps: int | None = None
    learning_rate: float = 1e-3
    beta2: float = 0.98
    weight_decay: float = 0.01
    warmup_steps: int = 400
    eval_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "inner", "held_out_rows", "batch_rows", "steps", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of the {self.heads} heads")
        if not 0 < self.mask_rate < 1:
            raise ValueError("mask_rate is a share between 0 and 1")
        if self.row_length < 8:
            raise ValueError("rows must have at least 8 tokens")
        if self.architecture == "gpt2" and self.output_bias != "zero":
            raise ValueError("a gpt2 model has no output bias; set output_bias: zero")


def read_pretrain_recipe(name: str) -> PretrainRecipe:
    """Return a recipe by name or YAML file, with `:key=value` overrides; raises UsageError with suggestions."""
    name, overrides = split_overrides(name, "pretrain")
    shipped = resource_folder("zoo_bench_papers", "configs") / "pretrain"
    known = {path.stem: path for path in sorted(shipped.glob("*.yaml"))}
    path = Path(name) if name.endswith((".yaml", ".yml")) else known.get(name)
    if path is None or not path.is_file():
        raise UsageError(f"unknown pretraining recipe {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    content = read_yaml(path) or {}
    if not isinstance(content, dict):
        raise UsageError(f"{path}: a pretraining recipe is a mapping of names to values.")
    return build(PretrainRecipe, {**content, **overrides}, str(path))
