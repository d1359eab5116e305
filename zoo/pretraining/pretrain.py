"""Pretrain a small BERT from plain text: recipe in, a plain transformers folder with a model card out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import FitReport, Run, Runtime
from zoo.engine.backbone import find_backbone
from zoo.engine.model_folder import cannot_load, check_tokenizer_files, load_pretrained
from zoo.errors import UsageError
from zoo.files import write_json, write_sums, write_tensors, write_text
from zoo.pretraining.mlm import HeldOut, MLMObjective, held_out_scores
from zoo.pretraining.starts import StartRecipe, start_weights
from zoo.pretraining.text import TokenStream, tokenise_files
from zoo.progress import Progress
from zoo.training.checkpoint import undisturbed
from zoo.training.folder import read_log
from zoo.training.loop import TrainSettings, train
from zoo.training.processes import own_process

_LOADED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_HELD_OUT_BLOCK = 32  # neighbouring rows held out together, so that little of their articles is trained on


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(StartRecipe):
    """Everything that decides the weights; `zoo-bench pretrain` reads it from YAML."""

    tokenizer: str = "zoo-mini"  # bert-base-uncased's vocabulary
    layers: int = 4
    width: int = 256
    heads: int = 4
    inner: int = 1024
    dropout: float = 0.0  # in pretraining: no token is seen often enough to be learnt by heart
    fine_tuning_dropout: float = 0.1  # what the written configuration says; SimCSE's two views live on it
    tie_embeddings: bool = True
    begin_from: str | None = None  # a backbone to go on from; None: a fresh start as the fields above say
    row_length: int = 64
    mask_rate: float = 0.2  # BERT's is 0.15; small models learn a little sooner with more
    held_out_rows: int = 2048
    batch_rows: int = 32
    accumulate: int = 1
    steps: int = 8000
    learning_rate: float = 1e-3
    beta2: float = 0.98
    weight_decay: float = 0.01
    warmup_steps: int = 400
    eval_every: int = 1000
    store: str = "float16"
    seed: int = 0


def new_model(recipe: PretrainRecipe, vocabulary: int, pad_id: int) -> Any:
    """Return an untrained BertForMaskedLM of the recipe's shape."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.inner,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        tie_word_embeddings=recipe.tie_embeddings,
        pad_token_id=pad_id,
    )
    return BertForMaskedLM(config)


def matmul_flops_per_token(recipe: PretrainRecipe, vocabulary: int) -> float:
    """FLOP of forward and backward for one token of a row: layers, attention, and its share of the MLM head."""
    layers = recipe.layers * (4 * recipe.width**2 + 2 * recipe.width * recipe.inner)
    attention = recipe.layers * 2 * recipe.row_length * recipe.width
    head = recipe.mask_rate * (recipe.width**2 + recipe.width * vocabulary)
    return 6.0 * (layers + attention + head)


def split_rows(rows: int, held_out: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the training rows and of the held-out rows: blocks spread evenly over the text."""
    blocks = max(held_out // _HELD_OUT_BLOCK, 1)
    if rows < 4 * blocks * _HELD_OUT_BLOCK:
        raise UsageError(f"the text makes {rows} rows, too few to hold out {held_out}; lower held_out_rows.")
    starts = np.linspace(0, rows - _HELD_OUT_BLOCK, blocks).astype(np.int64)
    held = np.unique((starts[:, None] + np.arange(_HELD_OUT_BLOCK)).ravel())
    return np.setdiff1d(np.arange(rows), held), held


@dataclass(frozen=True)
class Texts:
    """Text files to train on, how to read them, and which sentences to leave out."""

    paths: list[Path]
    read: Callable[[Path], Iterable[str]]
    cache: Path  # folder of the token files
    exclude: frozenset[str] = frozenset()  # normalised
    normalise: Callable[[str], str] = str


class _Setting:
    """The tokenised text, its held-out rows and the tokenizer: what training and scoring share."""

    def __init__(self, recipe: PretrainRecipe, texts: Texts, runtime: Runtime) -> None:
        from transformers import AutoTokenizer

        source = find_backbone(recipe.tokenizer)
        check_tokenizer_files(f"tokenizer {recipe.tokenizer!r}", source.folder)
        self.recipe, self.runtime = recipe, runtime
        self.tokenizer = load_pretrained(AutoTokenizer, source.folder)
        with own_process(runtime).main_process_first():
            self.stream = tokenise_files(
                texts.paths,
                texts.read,
                self.tokenizer,
                source.sha256,
                texts.cache,
                exclude=texts.exclude,
                normalise=texts.normalise,
                progress=runtime.progress,
            )
        self.training, held = split_rows(self.stream.rows(recipe.row_length), recipe.held_out_rows)
        self.held = [self.batch(rows).to(runtime.device) for rows in np.array_split(held, math.ceil(len(held) / 64))]

    def batch(self, rows: NDArray[np.int64]) -> torch.Tensor:
        tokenizer = self.tokenizer
        return torch.from_numpy(
            self.stream.packed(rows, self.recipe.row_length, tokenizer.cls_token_id, tokenizer.sep_token_id)
        )

    def objective(self, model: Any) -> MLMObjective:
        if self.runtime.device == "cpu":
            model.set_attn_implementation("eager")  # at these lengths the fused backward is the slower one on a CPU
        specials = sorted(set(self.tokenizer.all_special_ids))
        objective = MLMObjective(
            model, self.recipe.mask_rate, mask_id=self.tokenizer.mask_token_id, special_ids=specials
        )
        return objective.to(self.runtime.device)

    def score(self, objective: MLMObjective) -> HeldOut:
        with undisturbed(objective):
            return held_out_scores(objective, self.held)


def score_checkpoint(recipe: PretrainRecipe, texts: Texts, name: str, *, runtime: Runtime) -> HeldOut:
    """Return what any checkpoint with this tokenizer makes of the recipe's held-out rows and masks."""
    setting = _Setting(recipe, texts, runtime)
    return setting.score(setting.objective(_checkpoint(name)))


def _checkpoint(name: str) -> Any:
    from transformers import AutoModelForMaskedLM

    source = find_backbone(name)
    try:
        return load_pretrained(AutoModelForMaskedLM, source.folder, dtype=torch.float32)
    except Exception as error:  # transformers raises many kinds
        raise cannot_load(f"checkpoint {name!r}", source.folder, error) from error


def pretrain(recipe: PretrainRecipe, texts: Texts, out: Path, *, runtime: Runtime, run: Run) -> dict[str, Any]:
    """Train from text files and write the model folder `out`; returns what the model card states.

    Several processes share every batch; the first of them writes. Raises UsageError or MissingError for a wrong recipe
    or text, TrainingError and Interrupted as the loop does.
    """
    process = own_process(runtime)
    if not process.is_main_process:
        runtime = replace(runtime, progress=Progress.silent())
    setting = _Setting(recipe, texts, runtime)
    tokenizer, training = setting.tokenizer, setting.training
    torch.manual_seed(recipe.seed)
    if recipe.begin_from is None:
        model = new_model(recipe, len(tokenizer), tokenizer.pad_token_id)
        start_weights(model, setting.stream.ids, recipe, recipe.seed)
    else:
        model = _checkpoint(recipe.begin_from)
    objective = setting.objective(model)

    def dev_score() -> float:
        score = held_out_scores(objective, setting.held)
        runtime.progress.say(
            f"held out: accuracy {100 * score.accuracy:.2f} %, pseudo-perplexity {score.pseudo_perplexity:.1f}"
        )
        return 100 * score.accuracy

    report = train(
        objective,
        lambda rows: (setting.batch(training[rows]),),
        len(training),
        TrainSettings(
            batch_size=recipe.batch_rows,
            learning_rate=recipe.learning_rate,
            epochs=1,
            steps=recipe.steps,
            eval_every=recipe.eval_every,
            weight_decay=recipe.weight_decay,
            adam_betas=(0.9, recipe.beta2),
            warmup_steps=recipe.warmup_steps,
            accumulate=recipe.accumulate,
            unit="tokens",
            units_per_row=recipe.row_length,
            flops_per_row=recipe.row_length * matmul_flops_per_token(recipe, len(tokenizer)),
        ),
        runtime=runtime,
        run=run,
        backbone=model,
        dev_score=dev_score,
    )
    facts = _facts(recipe, report, setting.score(objective), setting.stream, texts.paths, len(tokenizer))
    facts |= {"processes": process.num_processes, "device": runtime.device, "precision": runtime.precision}
    if process.is_main_process:
        _write_folder(out, model, tokenizer, recipe, facts, run)
    return facts


def _facts(
    recipe: PretrainRecipe, report: FitReport, final: HeldOut, stream: TokenStream, texts: list[Path], vocabulary: int
) -> dict[str, Any]:
    seen = report.steps * recipe.batch_rows * recipe.row_length
    rate = seen / report.seconds if report.seconds else None
    return {
        "recipe": asdict(recipe),
        "texts": [path.name for path in texts],
        "stream_tokens": len(stream.ids),
        "sentences": stream.sentences,
        "excluded_sentences": stream.excluded,
        "stream_sha256": stream.sha256,
        "steps": report.steps,
        "tokens_seen": seen,
        "seconds": report.seconds,
        "tokens_per_second": rate,
        "tflops_per_second": None if rate is None else rate * matmul_flops_per_token(recipe, vocabulary) / 1e12,
        "final_loss": report.final_loss,
        "held_out_accuracy": final.accuracy,
        "held_out_pseudo_perplexity": final.pseudo_perplexity,
        "held_out_masked_tokens": final.tokens,
        "best_step": report.best_step,
    }


def _write_folder(
    out: Path, model: Any, tokenizer: Any, recipe: PretrainRecipe, facts: dict[str, Any], run: Run
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    dtype = getattr(torch, recipe.store)
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    tied = {"cls.predictions.decoder.bias", "cls.predictions.decoder.weight"} if recipe.tie_embeddings else set()
    model.config.dtype = dtype
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = recipe.fine_tuning_dropout
    model.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_tensors(out / "model.safetensors", {k: v for k, v in tensors.items() if k not in tied}, {"format": "pt"})
    write_json(out / "pretraining.json", facts)
    write_text(out / "README.md", model_card(out.name, facts))
    log = None if run.folder is None else run.folder / "log.jsonl"
    if log is not None and log.is_file():
        write_text(out / "training-curve.svg", curve_svg(read_log(log)))
    write_sums(out, [name for name in _LOADED if (out / name).is_file()])


def model_card(name: str, facts: dict[str, Any]) -> str:
    """Return the model card: data, training and held-out scores, from the facts that were measured."""
    recipe = facts["recipe"]
    return f"""# {name}

A masked language model pretrained by `zoo-bench pretrain`.

| | |
|---|---|
| model | BERT, {recipe["layers"]} layers, {recipe["width"]} wide, {recipe["heads"]} heads, {recipe["inner"]} inner, \
{"tied" if recipe["tie_embeddings"] else "untied"} output embeddings |
| text | {", ".join(facts["texts"])}: {facts["sentences"]:,} sentences, {facts["stream_tokens"]:,} tokens; \
{facts["excluded_sentences"]:,} sentences left out because a benchmark tests them |
| training | {facts["steps"]:,} steps of {recipe["batch_rows"]} rows x {recipe["row_length"]} tokens \
({facts["tokens_seen"] / 1e6:.1f} million), AdamW {recipe["learning_rate"]:g}, {recipe["warmup_steps"]} warm-up steps, \
masking {100 * recipe["mask_rate"]:.0f} %, seed {recipe["seed"]}; {facts["seconds"]:.0f} s |
| start | tokens {recipe["tokens"]}, positions {recipe["positions"]}, output bias {recipe["output_bias"]}, std \
{recipe["std"]:g}{"" if recipe["begin_from"] is None else f"; went on from {recipe['begin_from']}"} |
| held out | masked-token accuracy {100 * facts["held_out_accuracy"]:.2f} %, pseudo-perplexity \
{facts["held_out_pseudo_perplexity"]:.1f} ({facts["held_out_masked_tokens"]:,} masked tokens) |
"""


def curve_svg(log: list[dict[str, Any]], width: int = 640, height: int = 320) -> str:
    """Return the training curve (loss against step) as a small SVG picture."""
    points = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    if len(points) < 2:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"/>\n'
    steps, losses = zip(*points, strict=True)
    low, high = min(losses), max(losses)

    def place(step: float, loss: float) -> str:
        x = 50 + (width - 70) * (step - steps[0]) / (steps[-1] - steps[0])
        return f"{x:.1f},{20 + (height - 60) * (high - loss) / max(high - low, 1e-9):.1f}"

    line = " ".join(place(step, loss) for step, loss in points)
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<polyline points="{line}" fill="none" stroke="#3366aa" stroke-width="1.5"/>'
        f'<text x="5" y="25" {style}>{high:.2f}</text><text x="5" y="{height - 40}" {style}>{low:.2f}</text>'
        f'<text x="50" y="{height - 15}" {style}>step {steps[0]}</text>'
        f'<text x="{width - 20}" y="{height - 15}" text-anchor="end" {style}>step {steps[-1]}</text>'
        f'<text x="{width / 2}" y="15" text-anchor="middle" {style}>training loss</text></svg>\n'
    )
