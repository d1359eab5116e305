"""Recipe, starting weights and model card of a pretraining.

With the usual initialisation (std 0.02) a small BERT predicts only frequent words for millions of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.modules.ppmi import ppmi_vectors
from zoo.paths import resource_folder
from zoo.recipes import build
from zoo.selection import split_overrides

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class StartRecipe:
    """Initial weights; the defaults are zoo-mini's."""

    # Of all other weights; BERT's is 0.02.
    std: float = 0.06
    tokens: Literal["random", "ppmi"] = "ppmi"
    positions: Literal["random", "sinusoidal"] = "sinusoidal"
    output_bias: Literal["zero", "log-frequency"] = "log-frequency"
    row_norm: float = 0.8
    # Token types have no information in rows of one segment.
    type_scale: float = 0.1
    ppmi_window: int = 4
    ppmi_smoothing: float = 0.75
    ppmi_tokens: int = 20_000_000


def sinusoids(positions: int, dim: int, norm: float) -> NDArray[np.float32]:
    """Sine and cosine position vectors (positions, dim) of norm `norm` (Vaswani et al. 2017, section 3.5)."""
    rates = 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(positions)[:, None] * rates[None, :]
    vectors = np.zeros((positions, dim))
    vectors[:, 0::2], vectors[:, 1::2] = np.sin(angles), np.cos(angles)[:, : dim // 2]
    scaled: NDArray[np.float32] = (norm * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


@torch.no_grad()
def start_weights(model: PreTrainedModel, ids: NDArray[Any], recipe: StartRecipe, seed: int) -> None:
    """Set a model's weights before training, in place; `ids` is the token stream."""
    from transformers.pytorch_utils import Conv1D

    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | Conv1D):
            module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * recipe.std)
        if isinstance(module, nn.Linear | Conv1D) and module.bias is not None:
            module.bias.zero_()
    words, output = model.get_input_embeddings().get_parameter("weight"), model.get_output_embeddings()
    assert isinstance(output, nn.Linear)
    vocabulary, dim = words.shape
    if recipe.tokens == "ppmi":
        vectors = ppmi_vectors(
            ids[: recipe.ppmi_tokens],
            vocabulary,
            dim,
            seed=seed,
            row_norm=recipe.row_norm,
            window=recipe.ppmi_window,
            smoothing=recipe.ppmi_smoothing,
        )
        words.copy_(torch.from_numpy(vectors))
        output.weight.copy_(words)
    for name, weight in model.named_parameters():
        if name.endswith(("position_embeddings.weight", "wpe.weight")) and recipe.positions == "sinusoidal":
            first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
            weight[first:].copy_(torch.from_numpy(sinusoids(len(weight) - first, dim, recipe.row_norm)))
        if name.endswith("token_type_embeddings.weight"):
            weight.mul_(recipe.type_scale)
    if recipe.output_bias == "log-frequency":
        counts = np.bincount(np.asarray(ids[: recipe.ppmi_tokens], dtype=np.int64), minlength=vocabulary) + 0.1
        log_frequency = np.log(counts / counts.sum())
        output.bias.copy_(torch.from_numpy(log_frequency - log_frequency.max()))


def model_card(name: str, facts: dict[str, Any]) -> str:
    recipe, model, labelled = facts["recipe"], facts["model"], facts["ancestry"]["labelled"]
    causal = model["architecture"] == "gpt2"
    ancestry = "from " + ", ".join(facts["ancestry"]["ancestors"]) if facts["ancestry"]["ancestors"] else "none"
    if labelled:
        ancestry = (
            f"labelled ancestry: {', '.join(labelled)} was trained on labelled sentence pairs, and part of what this"
            " model scores may be left of that"
        )
    start = f"tokens {recipe['tokens']}, positions {recipe['positions']}, output bias {recipe['output_bias']}"
    fall = f"the last {recipe['decay_steps']:,} steps" if recipe["decay_steps"] else "all steps after them"
    curve = "".join(
        f"| {point['step']:,} | {100 * point['held_out_accuracy']:.2f} | {point['held_out_pseudo_perplexity']:.1f} |\n"
        for point in facts["held_out_curve"]
    )
    return f"""# {name}

A {"causal" if causal else "masked"} language model pretrained by `zoo-bench pretrain` (zoo-bench {facts["version"]}, \
code {facts["code"][:12]}) with `transformers.Trainer`.

| | |
|---|---|
| model | {model["architecture"].upper()}, {model["layers"]} layers, {model["width"]} wide, {model["heads"]} heads, \
vocabulary {model["vocabulary"]:,}, {model["parameters"] / 1e6:.1f} million weights, \
{"tied" if model["tied"] else "untied"} output embeddings |
| ancestry | {ancestry} |
| text | {", ".join(facts["texts"])}: {facts["rows"]:,} rows of {recipe["row_length"]} tokens; \
{facts["excluded_sentences"]:,} tested sentences left out |
| training | {facts["steps"]:,} steps of {recipe["batch_rows"]} rows \
({facts["tokens_seen"] / 1e6:.1f} million tokens), \
AdamW {recipe["learning_rate"]:g} (0.9, {recipe["beta2"]:g}), weight decay {recipe["weight_decay"]:g}, \
{recipe["warmup_steps"]:,} warm-up steps, then a fall to 0 over {fall}, \
{"the next token" if causal else f"masking {100 * recipe['mask_rate']:.0f} %"}, dropout {recipe["dropout"]:g}, \
seed {recipe["seed"]}; on {facts["device"]} in {facts["precision"]} |
| start | {start if recipe["begin_from"] is None else f"the weights of {recipe['begin_from']}"} |
| resumed | {"never" if facts["resumed_at"] is None else f"last at step {facts['resumed_at']:,}"} |
| held out | token accuracy {100 * facts["held_out_accuracy"]:.2f} %, pseudo-perplexity \
{facts["held_out_pseudo_perplexity"]:.1f} ({facts["held_out_tokens"]:,} tokens) |

Made again by

    {facts["command"]}

| step | held-out accuracy, % | pseudo-perplexity |
|---:|---:|---:|
{curve}"""


TRAINED_TOKENIZERS = ("byte-level-bpe", "unigram")
"""Values of `tokenizer` for a tokenizer that is trained on the text: RoBERTa's and ALBERT's."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(StartRecipe):
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
    """A recipe by name or YAML file, with `:key=value` overrides; raises UsageError with suggestions."""
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
