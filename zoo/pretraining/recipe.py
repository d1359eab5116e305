"""The recipe of a pretraining: one frozen dataclass, read from YAML."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zoo.errors import UsageError, did_you_mean
from zoo.paths import resource_folder
from zoo.pretraining.starts import StartRecipe
from zoo.recipe import build
from zoo.selection import split_overrides
from zoo.yaml_files import read_yaml

TRAINED_TOKENIZERS = ("byte-level-bpe", "unigram")
"""Values of `tokenizer` for a tokenizer that is trained on the text."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(StartRecipe):
    """All settings that the trained weights depend on; `zoo-bench pretrain` reads them from YAML."""

    architecture: Literal["bert", "roberta", "albert", "gpt2"] = (
        "bert"  # gpt2 predicts the next token, the others masked ones
    )
    tokenizer: str = "zoo-small"  # that of a backbone, or trained here: byte-level-bpe, unigram
    vocabulary: int = 20_000  # size, for a tokenizer that is trained here
    tokenizer_sentences: int = 500_000  # to train a tokenizer on, evenly spread over the text
    layers: int = 4
    width: int = 256
    heads: int = 4
    inner: int = 1024
    embedding: int | None = None  # ALBERT: width of the token vectors; None: the layers' width
    dropout: float = 0.0  # in pretraining: no text is seen often enough to be memorised
    fine_tuning_dropout: float = 0.1  # in the written configuration; SimCSE's two views need it
    tie_embeddings: bool = True
    begin_from: str | None = None  # a backbone to continue from, with its shape; None: new weights
    row_length: int = 64
    row_stages: tuple[tuple[int, int], ...] = ()  # (step, length): from this step on, rows have this length
    mask_rate: float = 0.2  # 0.15 in BERT; small models learn a little sooner with more
    last_mask_rate: float | None = None  # to which mask_rate falls linearly in the first `mask_steps` steps
    mask_steps: int = 4000
    held_out_rows: int = 2048
    held_out_mask_rate: float = 0.2  # independent of mask_rate, so that trainings can be compared
    batch_rows: int = 32  # at row_length; with longer rows fewer, so that the tokens per step stay the same
    accumulate: int = 1
    steps: int = 8000
    decay_steps: int | None = None  # last steps, in which the rate falls to 0; None: all after the warm-up
    optimizer: Literal["adamw", "muon"] = "adamw"  # muon for the hidden matrices, with adamw for the rest
    learning_rate: float = 1e-3
    beta2: float = 0.98
    momentum: float = 0.95  # Muon's
    weight_decay: float = 0.01
    warmup_steps: int = 400
    vocabulary_loss: Literal["full", "sampled"] = "sampled"  # see zoo.pretraining.vocabulary; a third faster on a CPU
    frequent_tokens: int = 2048  # tokens that a sampled softmax sums exactly
    drawn_tokens: int = 2048  # sample of the other tokens per step
    last_layer: Literal["everywhere", "masked"] = "masked"  # masked: computed only at masked positions
    teacher: str | None = None  # a masked language model of the same vocabulary that gives soft targets
    teacher_weight: float = 0.5  # of the soft targets; the true tokens have 1 - weight
    eval_every: int = 1000
    store: str = "float16"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "inner", "held_out_rows", "batch_rows", "accumulate", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of the {self.heads} heads")
        if not 0 < self.mask_rate < 1 or not 0 < self.held_out_mask_rate < 1 or not 0 <= self.teacher_weight <= 1:
            raise ValueError("mask_rate, held_out_mask_rate and teacher_weight are shares between 0 and 1")
        if self.mask_steps < 1 or not 0 < (self.last_mask_rate or self.mask_rate) < 1:
            raise ValueError("last_mask_rate must be a share between 0 and 1, and mask_steps at least 1")
        for name, value in (("output_bias", "zero"), ("optimizer", "adamw"), ("teacher", None)):
            if self.architecture == "gpt2" and getattr(self, name) != value:
                raise ValueError(f"a gpt2 model is trained without that {name}; set {name}: {value or 'null'}")
        if (self.tokens == "table") != (self.table is not None):
            raise ValueError("tokens=table and table=FOLDER belong together: the start is that table")
        if self.store not in ("float16", "bfloat16", "float32"):
            raise ValueError("store must be float16, bfloat16 or float32")
        if self.decay_steps is not None and self.decay_steps < 0:
            raise ValueError("decay_steps must be at least 0")
        if any(len(stage) != 2 for stage in self.row_stages):
            raise ValueError("row_stages is a list of pairs [step, row length]")
        steps = [stage[0] for stage in self.row_stages]
        if steps != sorted(set(steps)) or any(step < 1 for step in steps):
            raise ValueError("row_stages must have rising steps, from 1 on")
        if any(length < 8 for length in self.row_lengths):
            raise ValueError("rows must have at least 8 tokens")
        if self.teacher is not None and self.vocabulary_loss != "full":
            raise ValueError("soft targets of a teacher need vocabulary_loss=full")

    @property
    def row_lengths(self) -> list[int]:
        """The lengths of all stages, in their order."""
        return [self.row_length, *(length for _, length in self.row_stages)]

    @property
    def decay_from(self) -> int:
        """The step at which the rate starts to fall."""
        if self.decay_steps is None:
            return min(self.warmup_steps, self.steps)
        return max(self.steps - self.decay_steps, 0)


@dataclass(frozen=True)
class Stage:
    """A part of the training with rows of one length."""

    first_step: int
    length: int  # tokens of a row
    batch: int  # rows of a step


def stages(recipe: PretrainRecipe) -> list[Stage]:
    """Return the stages in order; all steps have the same number of tokens, rounded to whole rows."""
    tokens = recipe.batch_rows * recipe.row_length
    found = [Stage(0, recipe.row_length, recipe.batch_rows)]
    return found + [Stage(step, length, max(tokens // length, 1)) for step, length in recipe.row_stages]


def mask_rate_at(recipe: PretrainRecipe, step: int) -> float:
    """Return the share of tokens that are masked at a step."""
    last = recipe.mask_rate if recipe.last_mask_rate is None else recipe.last_mask_rate
    return recipe.mask_rate + min(step / recipe.mask_steps, 1.0) * (last - recipe.mask_rate)


def rate_factor(step: int, warmup: int, decay_from: int, total: int) -> float:
    """Return the factor of the learning rate at a step: linear warm-up, 1, then a linear fall to 0 at `total`."""
    rise = step / warmup if step < warmup else 1.0
    fall = max(0.0, (total - step) / max(total - decay_from, 1)) if step >= decay_from and total > decay_from else 1.0
    return min(rise, fall)


def _recipes() -> dict[str, Path]:
    return {path.stem: path for path in sorted((resource_folder("zoo", "configs") / "pretrain").glob("*.yaml"))}


def read_pretrain_recipe(name: str) -> PretrainRecipe:
    """Return a recipe by name or YAML file, with `:key=value` overrides; raises UsageError with suggestions."""
    name, overrides = split_overrides(name, "pretrain")
    known = _recipes()
    path = Path(name) if name.endswith((".yaml", ".yml")) else known.get(name)
    if path is None or not path.is_file():
        raise UsageError(f"unknown pretraining recipe {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    content = read_yaml(path) or {}
    if not isinstance(content, dict):
        raise UsageError(f"{path}: a pretraining recipe is a mapping of names to values.")
    return build(PretrainRecipe, {**content, **overrides}, str(path))


def recipe_line(recipe: PretrainRecipe, name: str) -> str:
    """Return `NAME:key=value...` for this recipe on any machine; for a recipe from a file NAME is `tiny`."""
    name = split_overrides(name, "pretrain")[0]
    if name not in _recipes():
        name = "tiny"
    base: dict[str, object] = dataclasses.asdict(read_pretrain_recipe(name))
    own = dataclasses.asdict(recipe)
    changed = [f":{key}={_yaml(own[key])}" for key in own if own[key] != base[key]]
    return name + "".join(changed)


def _yaml(value: object) -> str:
    if isinstance(value, str):
        plain = value.replace("-", "").replace("_", "").replace("/", "").replace(".", "").isalnum()
        return value if plain and not value[0].isdigit() else json.dumps(value)
    return json.dumps(value, separators=(",", ":"))
