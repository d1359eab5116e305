"""A pretraining by `transformers.Trainer`: a backbone's folder with its model card."""

from __future__ import annotations

import shutil
import time
import zlib
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from benchmark.keys import code_digest
from zoo import __version__
from zoo.encoder import Runtime
from zoo.engine.backbone import BackboneSource, find_backbone
from zoo.engine.bert import mlm_head_of
from zoo.engine.hub_models import PRETRAINING
from zoo.engine.model_folder import cannot_load, check_tokenizer_files, load_pretrained
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_json, read_mapping, write_json, write_sums, write_text
from zoo_bench_papers.pretraining.recipe import TRAINED_TOKENIZERS, PretrainRecipe, model_card, start_weights
from zoo_bench_papers.pretraining.texts import PlainTexts, packed_rows, split_rows

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_LOADED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_POSITIONS = 512
# SimCSE's two views need dropout in the written configuration.
_FINE_TUNING_DROPOUT = 0.1
_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob", "embd_pdrop", "attn_pdrop", "resid_pdrop")


def find_source(recipe: PretrainRecipe) -> BackboneSource | None:
    """Backbone of a recipe's weights or tokenizer, if any; raises MissingError or UsageError."""
    if recipe.begin_from is None and recipe.tokenizer in TRAINED_TOKENIZERS:
        return None
    source = find_backbone(recipe.begin_from or recipe.tokenizer)
    check_tokenizer_files(f"backbone {source.name!r}", source.folder)
    return source


def pretrain(
    recipe: PretrainRecipe,
    texts: PlainTexts,
    out: Path,
    *,
    runtime: Runtime,
    checkpoint_steps: int | None = None,
    command: str | None = None,
    read_all: bool = True,
) -> dict[str, Any]:
    """Train the recipe's model on the texts, write its folder `out`, and return the facts of its card.

    A call on the same folder goes on from the last complete checkpoint in `out`/training (every `checkpoint_steps`
    steps, by default every `eval_every`). Without `read_all`, the text is read as far as the steps need it, each row
    once. Raises UsageError for a folder with another recipe's training or model.
    """
    work, noted = out / "training", out / "training" / "recipe.json"
    done = read_mapping(out / PRETRAINING) if (out / PRETRAINING).is_file() else None
    stated = asdict(recipe)
    if (done or {"recipe": stated})["recipe"] != stated or (noted.is_file() and read_json(noted) != stated):
        raise UsageError(f"{out} holds the training of another recipe; choose another --out, or remove it.")
    if done is not None:
        return done
    for path in texts.paths:
        if not path.is_file():
            raise MissingError(f"text {path} does not exist.")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    source = find_source(recipe)
    tokenizer = _tokenizer(recipe, source, texts, work / "tokenizer", trained_here=noted.is_file())
    write_json(noted, stated)
    # At most a quarter of the rows is held out.
    most = None if read_all else max(recipe.steps * recipe.batch_rows + recipe.held_out_rows, 4 * recipe.held_out_rows)
    rows, held = split_rows(packed_rows(texts, tokenizer, recipe.row_length, most), recipe.held_out_rows)
    torch.manual_seed(recipe.seed)
    if recipe.begin_from is not None and source is not None:
        model = _loaded(source, recipe.dropout)
    else:
        model = _new_model(recipe, tokenizer)
        counted = rows[: -(-recipe.ppmi_tokens // (recipe.row_length - 2))]["input_ids"]
        start_weights(model, counted[:, 1:-1].ravel(), recipe, recipe.seed)
    every = checkpoint_steps or recipe.eval_every
    trainer = _Trainer(model, _arguments(recipe, runtime, work, every), rows, held, tokenizer, recipe, runtime)
    last = _last_checkpoint(work)
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    seconds, final, curve = time.monotonic() - began, trainer.evaluate(), trainer.state.log_history
    config = model.config
    facts: dict[str, Any] = {
        "recipe": stated,
        "version": __version__,
        "code": code_digest(),
        "model": {
            "architecture": config.model_type,
            "layers": config.num_hidden_layers,
            "width": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocabulary": config.vocab_size,
            "tied": config.tie_word_embeddings,
            "parameters": model.num_parameters(),
        },
        "ancestry": ancestry(recipe),
        "texts": [path.name for path in texts.paths],
        "rows": len(rows) + len(held),
        "excluded_sentences": len(texts.exclude),
        "steps": trainer.state.global_step,
        "tokens_seen": trainer.state.global_step * recipe.batch_rows * recipe.row_length,
        "resumed_at": None if last is None else int(last.name.rpartition("-")[2]),
        "seconds_since_resumed": round(seconds, 1),
        "final_loss": [entry["loss"] for entry in curve if "loss" in entry][-1],
        **final,
        "held_out_curve": list({entry["step"]: entry for entry in curve if "held_out_accuracy" in entry}.values()),
        "device": runtime.device,
        "precision": runtime.precision,
        "command": command,
    }
    config.update({name: _FINE_TUNING_DROPOUT for name in _DROPOUT if hasattr(config, name)})
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_text(out / "README.md", model_card(out.name, facts))
    write_sums(out, [name for name in _LOADED if (out / name).is_file()])
    # Written last, it says that the folder is whole.
    write_json(out / PRETRAINING, facts)
    shutil.rmtree(work)
    return facts


def ancestry(recipe: PretrainRecipe) -> dict[str, list[str]]:
    source = find_source(recipe)
    if recipe.begin_from is None or source is None:
        return {"ancestors": [], "labelled": []}
    return {"ancestors": [source.name, *source.ancestors], "labelled": list(source.labelled)}


def _tokenizer(
    recipe: PretrainRecipe, source: BackboneSource | None, texts: PlainTexts, folder: Path, *, trained_here: bool
) -> PreTrainedTokenizerBase:
    if source is None and not trained_here:
        kinds = {"byte-level-bpe": transformers.RobertaTokenizer, "unigram": transformers.AlbertTokenizer}
        some = islice(texts.sentences(), recipe.tokenizer_sentences)
        trained = kinds[recipe.tokenizer](model_max_length=_POSITIONS).train_new_from_iterator(some, recipe.vocabulary)
        trained.save_pretrained(folder)
    place = folder if source is None else source.folder
    tokenizer: PreTrainedTokenizerBase = _load(transformers.AutoTokenizer, place)
    missing = [kind for kind in ("cls", "sep", "mask", "pad") if getattr(tokenizer, f"{kind}_token_id") is None]
    if missing:
        raise UsageError(f"the tokenizer in {place} has no {missing[0]} token; pretraining needs one.")
    return tokenizer


def _load(kind: Any, folder: Path, **options: object) -> Any:
    try:
        return load_pretrained(kind, folder, **options)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(f"{kind.__name__}", folder, error) from error


def _loaded(source: BackboneSource, dropout: float) -> PreTrainedModel:
    config = _load(transformers.AutoConfig, source.folder)
    config.update({name: dropout for name in _DROPOUT if hasattr(config, name)})
    kind = transformers.AutoModelForCausalLM if config.model_type == "gpt2" else transformers.AutoModelForMaskedLM
    model: PreTrainedModel = _load(kind, source.folder, config=config, dtype=torch.float32)
    return model


def _new_model(recipe: PretrainRecipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    longest = max(_POSITIONS, recipe.row_length)
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "intermediate_size": recipe.inner,
        "n_inner": recipe.inner,
        "max_position_embeddings": longest + (recipe.architecture == "roberta") * (1 + tokenizer.pad_token_id),
        "tie_word_embeddings": recipe.tie_embeddings,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        **dict.fromkeys(_DROPOUT, recipe.dropout),
    }
    kinds: dict[str, dict[str, Any]] = {
        "albert": {"embedding_size": recipe.embedding or recipe.width, "hidden_act": "gelu"},
        "roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    }
    names = {
        "bert": (transformers.BertConfig, transformers.BertForMaskedLM),
        "roberta": (transformers.RobertaConfig, transformers.RobertaForMaskedLM),
        "albert": (transformers.AlbertConfig, transformers.AlbertForMaskedLM),
        "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
    }
    config, kind = names[recipe.architecture]
    foreign = ("n_inner", *_DROPOUT[2:]) if recipe.architecture != "gpt2" else ("intermediate_size", *_DROPOUT[:2])
    fields = {name: value for name, value in shape.items() if name not in foreign}
    model: PreTrainedModel = kind(config(**fields, **kinds.get(recipe.architecture, {})))
    return model


def _arguments(recipe: PretrainRecipe, runtime: Runtime, work: Path, every: int) -> TrainingArguments:
    fall = recipe.decay_steps
    return TrainingArguments(
        output_dir=str(work),
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_rows,
        learning_rate=recipe.learning_rate,
        adam_beta2=recipe.beta2,
        weight_decay=recipe.weight_decay,
        warmup_steps=recipe.warmup_steps,
        lr_scheduler_type="linear" if fall is None else "warmup_stable_decay",
        lr_scheduler_kwargs={} if fall is None else {"num_decay_steps": fall, "decay_type": "linear"},
        eval_strategy="steps",
        eval_steps=recipe.eval_every,
        logging_steps=min(max(recipe.eval_every // 10, 1), recipe.steps),
        save_strategy="steps",
        save_steps=every,
        # The last may be cut by a kill.
        save_total_limit=2,
        seed=recipe.seed,
        bf16=runtime.precision == "bf16",
        fp16=runtime.precision == "fp16",
        use_cpu=runtime.device == "cpu",
        report_to="none",
        disable_tqdm=True,
    )


def _last_checkpoint(work: Path) -> Path | None:
    """Last complete checkpoint: Trainer writes its state last."""
    for folder in sorted(work.glob("checkpoint-*"), key=lambda path: -int(path.name.rpartition("-")[2])):
        try:
            read_mapping(folder / "trainer_state.json")
        except (MissingError, CorruptError):
            shutil.rmtree(folder)
        else:
            return folder
    return None


def predictions(
    model: PreTrainedModel, input_ids: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (k, vocabulary) and true ids (k,) of labelled positions; GPT-2's are the next."""
    states: torch.Tensor = model.base_model(input_ids=input_ids).last_hidden_state
    if model.config.model_type == "gpt2":
        states, labels, head = states[:, :-1], labels[:, 1:], model.get_output_embeddings()
    else:
        head = mlm_head_of(model, model.config.model_type)
    chosen = labels != -100
    logits: torch.Tensor = head(states[chosen])
    return logits, labels[chosen]


class _Trainer(Trainer):
    """Trainer with the head at labelled positions only, and with held-out scores."""

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        rows: Dataset,
        held: Dataset,
        tokenizer: PreTrainedTokenizerBase,
        recipe: PretrainRecipe,
        runtime: Runtime,
    ) -> None:
        masked = model.config.model_type != "gpt2"

        def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
            # The masks are drawn from the batch's own tokens: the loader reads ahead of a checkpoint's random state.
            seed = zlib.crc32(np.stack([row["input_ids"] for row in rows]).tobytes()) + recipe.seed
            batch: dict[str, torch.Tensor] = DataCollatorForLanguageModeling(
                tokenizer, mlm=masked, mlm_probability=recipe.mask_rate, seed=seed
            )(rows)
            return batch

        super().__init__(model, arguments, collate, rows, held)
        self.remove_callback(transformers.PrinterCallback)
        self.language_model, self.held, self.collate, self.say = model, held, collate, runtime.progress.say

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        with self.accelerator.autocast():
            logits, truth = predictions(self.accelerator.unwrap_model(model), inputs["input_ids"], inputs["labels"])
        return F.cross_entropy(logits.float(), truth)

    @torch.inference_mode()
    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Accuracy (0 to 1) and exp(mean loss) over held-out rows, with the same masks in every call."""
        model = self.language_model
        model.train(False)
        right, count, loss = 0, 0, 0.0
        for first in range(0, len(self.held), 64):
            some = self.held[first : first + 64]["input_ids"]
            batch = self.collate([{"input_ids": row} for row in np.asarray(some)])
            device = self.args.device
            with self.accelerator.autocast():
                logits, truth = predictions(model, batch["input_ids"].to(device), batch["labels"].to(device))
            right += int((logits.argmax(-1) == truth).sum())
            loss += float(F.cross_entropy(logits.float(), truth, reduction="sum"))
            count += len(truth)
        model.train()
        scores = {
            "held_out_accuracy": right / count,
            "held_out_pseudo_perplexity": float(np.exp(loss / count)),
            "held_out_tokens": count,
        }
        self.log(dict(scores))
        return scores

    def log(self, logs: dict[str, float], *more: Any) -> None:
        super().log(logs, *more)
        shown = (f"{name} {value:.4g}" for name, value in logs.items() if isinstance(value, float))
        self.say(f"step {self.state.global_step:,}: {', '.join(shown)}")
