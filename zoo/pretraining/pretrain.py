"""Pretrains a small language model on plain text and writes a transformers folder with a model card."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from zoo.encoder import FitReport, Run, Runtime
from zoo.engine.named import PRETRAINING
from zoo.files import check_writable, read_mapping, write_json, write_sums, write_tensors, write_text
from zoo.pretraining.card import curve_svg, model_card
from zoo.pretraining.mlm import HeldOut
from zoo.pretraining.models import (
    dropout_fields,
    find_with_tokenizer,
    flops_per_token,
    inner_width,
    load_model,
    new_model,
)
from zoo.pretraining.phases import check_own, settled_phase
from zoo.pretraining.recipe import PretrainRecipe
from zoo.pretraining.run import PretrainTraining
from zoo.pretraining.setting import PlainTexts, Setting
from zoo.pretraining.starts import start_weights
from zoo.training.folder import BEFORE, LAST

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["PlainTexts", "PretrainRecipe", "Wishes", "pretrain", "score_checkpoint"]

_LOADED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Wishes:
    """Options of one call that do not belong to the recipe."""

    finish: int | None = None  # let the rate fall from the last checkpoint over this many steps (0: the recipe's)
    keep_at: tuple[int, ...] = ()  # numbers of tokens after which the model is also written to a folder of its own
    keep_state: bool = False  # with it the training's state, so that it can be finished from there
    command: Callable[[PretrainRecipe], str] | None = None  # recipe -> the command that makes the model again


def score_checkpoint(recipe: PretrainRecipe, texts: PlainTexts, name: str, *, runtime: Runtime) -> HeldOut:
    """Return the scores of any checkpoint with this tokenizer on the recipe's held-out rows and masks."""
    find_with_tokenizer(name, "--score")
    setting = Setting(recipe, texts, runtime)
    return setting.score(setting.objective(load_model(name)))


def pretrain(
    recipe: PretrainRecipe, texts: PlainTexts, out: Path, *, runtime: Runtime, run: Run, wishes: Wishes | None = None
) -> dict[str, Any]:
    """Train from text files and write the model folder `out`; returns the facts in the model card.

    Raises UsageError or MissingError for a wrong recipe
    or text, TrainingError and Interrupted as the loop does.
    """
    wishes = wishes or Wishes()
    check_writable(out)
    setting = Setting(recipe, texts, runtime)
    if run.folder is not None:
        check_own(run.folder, recipe, setting.stream.sha256)
    phase = settled_phase(run.folder, recipe, wishes.finish)
    if wishes.finish is not None:
        recipe = replace(recipe, steps=phase.total, decay_steps=phase.total - phase.decay_from)
    torch.manual_seed(recipe.seed)
    if recipe.begin_from is None:
        model = new_model(recipe, len(setting.tokenizer), setting.tokenizer)
        start_weights(model, setting.stream.ids, setting.tokenizer, recipe, recipe.seed)
    else:
        model = load_model(recipe.begin_from, recipe.dropout)
    objective = setting.objective(model)
    tokenizer = setting.tokenizer

    def facts_of(
        now: PretrainTraining, made: PretrainRecipe, final: HeldOut, loss: float, seconds: float
    ) -> dict[str, Any]:
        facts = _facts(made, setting, texts, model, now, final, loss, seconds)
        command = None if wishes.command is None else wishes.command(made)
        return facts | {
            "command": command,
            "device": runtime.device,
            "precision": runtime.precision,
        }

    def keep(tokens: int, now: PretrainTraining) -> None:
        folder = out / "kept" / f"{out.name}-{short(tokens)}"
        before = now.step <= phase.decay_from
        made = replace(recipe, steps=now.step, decay_steps=0) if before and recipe.decay_steps is not None else recipe
        facts = facts_of(now, made, now.scored(), now.last_loss, now.seconds)
        _write_folder(folder, model, tokenizer, recipe, facts, now.files.lines)
        if wishes.keep_state:
            now.save_state(folder / "training")
        runtime.progress.say(f"kept: {folder}")

    training = PretrainTraining(
        objective,
        recipe,
        phase,
        setting.batch,
        setting.training_rows,
        lambda length: flops_per_token(recipe, model.config, len(tokenizer), length),
        runtime,
        run,
        lambda: setting.score(objective),
        wishes.keep_at,
        keep,
    )
    report: FitReport = training.run()
    if phase.decay_from == phase.total:
        training.save_at_end()
    final = setting.score(objective)
    facts: dict[str, Any] = facts_of(training, recipe, final, report.final_loss or 0.0, report.seconds)
    _write_folder(out, model, tokenizer, recipe, facts, training.files.lines)
    if run.folder is not None and phase.decay_from < phase.total:
        for name in (LAST, BEFORE):  # the training is finished; it can continue from constant.safetensors
            (run.folder / name).unlink(missing_ok=True)
    return facts


def short(tokens: int) -> str:
    """Return a number of tokens as 30M, 1500K or 123."""
    for unit, letter in ((10**6, "M"), (10**3, "K")):
        if tokens % unit == 0:
            return f"{tokens // unit}{letter}"
    return str(tokens)


def _facts(
    recipe: PretrainRecipe,
    setting: Setting,
    texts: PlainTexts,
    model: PreTrainedModel,
    training: PretrainTraining,
    final: HeldOut,
    loss: float,
    seconds: float,
) -> dict[str, Any]:
    stream, vocabulary = setting.stream, len(setting.tokenizer)
    seen = training.tokens_after(training.step)
    rate = seen / seconds if seconds else None
    config = model.config
    flops = flops_per_token(recipe, config, vocabulary, recipe.row_length)
    return {
        "recipe": asdict(recipe),
        "model": {
            "architecture": config.model_type,
            "layers": config.num_hidden_layers,
            "width": config.hidden_size,
            "heads": config.num_attention_heads,
            "inner": inner_width(config),
            "embedding": getattr(config, "embedding_size", config.hidden_size),
            "vocabulary": config.vocab_size,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        "ancestry": setting.names.ancestry,
        "texts": [path.name for path in texts.paths],
        "stream_tokens": len(stream.ids),
        "sentences": stream.sentences,
        "excluded_sentences": stream.excluded,
        "stream_sha256": stream.sha256,
        "stages": [*_stages_before(setting), _stage(recipe, seen, final)],
        "steps": training.step,
        "tokens_seen": seen,
        "resumed": len(training.resumed_at),
        "resumed_at": training.resumed_at,
        "seconds": seconds,
        "tokens_per_second": rate,
        "tflops_per_second": None if rate is None else rate * flops / 1e12,
        "final_loss": loss,
        "held_out_accuracy": final.accuracy,
        "held_out_pseudo_perplexity": final.pseudo_perplexity,
        "held_out_masked_tokens": final.tokens,
        "held_out_curve": [
            {key: line[key] for key in ("step", "tokens", "held_out_accuracy", "held_out_pseudo_perplexity")}
            for line in map(json.loads, training.files.lines)
            if "held_out_accuracy" in line
        ],
    }


def _stage(recipe: PretrainRecipe, tokens: int, final: HeldOut) -> dict[str, object]:
    masking = {name: getattr(recipe, name) for name in ("mask_rate", "last_mask_rate", "mask_steps")}
    scores = {"held_out_accuracy": final.accuracy, "held_out_pseudo_perplexity": final.pseudo_perplexity}
    return {"tokens_seen": tokens, **masking, **scores}


def _stages_before(setting: Setting) -> list[dict[str, object]]:
    """Return the stages that the ancestor's folder states, if this training went on from one that has them."""
    ancestor = setting.names.begin_from
    if ancestor is None or not (ancestor.folder / PRETRAINING).is_file():
        return []
    stages: list[dict[str, object]] = read_mapping(ancestor.folder / PRETRAINING).get("stages", [])
    return stages


def _write_folder(
    out: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: PretrainRecipe,
    facts: dict[str, Any],
    log: list[str],
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    dtype = getattr(torch, recipe.store)
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    tied = set(model._tied_weights_keys) if model.config.tie_word_embeddings else set()
    config = model.config.to_diff_dict() | {"dtype": recipe.store, "architectures": [type(model).__name__]}
    rates = dropout_fields(model.config.model_type, recipe.fine_tuning_dropout)
    written = type(model.config).from_dict(config | rates)
    written.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_tensors(out / "model.safetensors", {k: v for k, v in tensors.items() if k not in tied}, {"format": "pt"})
    write_json(out / PRETRAINING, facts)
    write_text(out / "README.md", model_card(out.name, facts))
    write_sums(out, [name for name in _LOADED if (out / name).is_file()])
    if log:
        per_step = facts["tokens_seen"] / max(facts["steps"], 1)
        write_text(out / "training-curve.svg", curve_svg([json.loads(line) for line in log], per_step))
