"""Where a comparison with a released code begins: a small backbone, the weights of a recipe and its first ten batches.

`python -m tools.fidelity.start FOLDER [NAME...]` writes FOLDER/NAME.safetensors for `tools/fidelity/release.py`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.dropout import set_dropout
from zoo.methods import diffcse, twoviews
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training import losses
from zoo.training.loop import Objective, train
from zoo.training.lora import with_adapters

STEPS = 10
THINGS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" + " again" * (i % 3) for i, a in enumerate(THINGS) for b in THINGS]
TOY = Corpus("toy", SENTENCES)
# Texts of equal length, without padding, whose states IS-BERT's code reads.
ALIKE = Corpus("alike", [text.removesuffix(" again").removesuffix(" again") for text in SENTENCES])
DOCUMENTS = Corpus("documents", SENTENCES, documents=range(0, 64, 8))
TRIPLETS = [text for i in range(20) for text in (SENTENCES[i], SENTENCES[i + 20], SENTENCES[i], SENTENCES[i + 40])]
NLI = Corpus("nli", TRIPLETS, ["entailment", "contradiction"] * 20)
# The words of the sentences and of all templates, and BERT's places for its special tokens, which released codes name.
WORDS = [
    *sorted({word for text in SENTENCES for word in text.split()}),
    *"this sentence of means it can be summarized as not does cannot so mean , . : '".split(),
    '"',
    "##s",  # augmentations of words ask whether a tokenizer marks their parts
    *"in one word summarize".split(),
]
SPECIALS = {
    "bert": {"[CLS]": 101, "[SEP]": 102, "[PAD]": 0, "[UNK]": 100, "[MASK]": 103},
    "roberta": {"<s>": 0, "</s>": 2, "<pad>": 1, "<unk>": 3, "<mask>": 4},
    "llama": {"<s>": 1, "</s>": 2, "<pad>": 0, "<unk>": 3, "<mask>": 4},
}
SIZES = {
    "vocab_size": 128,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 128,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    # Large enough to tell sentences and places apart: of nearly equal vectors the gradients are rounding errors.
    "initializer_range": 0.3,
    "type_vocab_size": 2,
}


class Comparison(NamedTuple):
    """A recipe with the settings of its ten steps, the texts that it is trained on, and the kind of its backbone."""

    settings: str
    corpus: Corpus
    prepare: Callable[[Any], None] = lambda encoder: None
    kind: str = "bert"


def teachers(encoder: Any) -> None:
    """Give RankCSE random vectors, which tell sentences apart as a trained teacher's do."""
    draws = torch.Generator().manual_seed(0)
    encoder.vectors = tuple(F.normalize(torch.randn(64, dim, generator=draws), dim=-1) for dim in (12, 20))


def third_masked(encoder: Any) -> None:
    """Mask every third token, which DiffCSE and InfoCSE draw; the release's run does the same."""

    def every_third(ids: torch.Tensor, rate: float, *, mask_id: int, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        places = (torch.arange(ids.shape[-1]) % 3 == 1) & (ids != 102) & (ids != 0)
        return torch.where(places, torch.full_like(ids, mask_id), ids), places

    diffcse.mask_some = losses.mask_some = every_third  # type: ignore[attr-defined]


def in_reverse(encoder: Any) -> None:
    """Reverse what ConSERT shuffles, positions and features to cut; the release's run does the same."""

    def positions(attention_mask: torch.Tensor, first: int) -> torch.Tensor:
        places, tokens = torch.arange(attention_mask.shape[1]), attention_mask.sum(1, keepdim=True)
        return first + torch.where(attention_mask == 1, tokens - 1 - places, places)

    def features(embeddings: torch.Tensor, share: float) -> torch.Tensor:
        dim = embeddings.shape[-1]
        return embeddings * (torch.arange(dim) < dim - int(share * dim))

    twoviews.shuffled_positions, twoviews.cut_features = positions, features


def drifted(encoder: Any) -> None:
    """Move GCSE's trained encoder away from the frozen one: at the start no gap has a sign."""
    new = encoder.objective

    def objective() -> Objective:
        built: Any = new()
        draws = torch.Generator().manual_seed(0)
        for weight in built.pooler.parameters():
            weight.data += 0.03 * torch.randn(weight.shape, generator=draws)
        return cast(Objective, built)

    encoder.objective = objective


def moved_adapters(encoder: Any) -> None:
    """Draw adapters whose B is not 0: where it is, A has no gradient."""
    torch.manual_seed(0)
    with_adapters(encoder.backbone.model, encoder.recipe.adapters)
    for name, weight in encoder.backbone.model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight, std=0.3)


SMALL = "batch_size=4:learning_rate=1e-3:epochs=1"
ADAMW = f"{SMALL}:optimizer=transformers-adamw"
COMPARISONS = {
    "simcse": Comparison(ADAMW, TOY),
    "simcse-sup": Comparison(ADAMW, NLI),
    "ptbert-repo": Comparison(f"{ADAMW}:queue_size=20:attention_dropout=0.0", TOY),
    "promptbert-repo": Comparison(ADAMW, TOY),
    "promptbert-sup-repo": Comparison(ADAMW, NLI),
    "optiprompt-repo": Comparison(ADAMW, TOY),
    "isbert-repo": Comparison(f"{ADAMW}:bias_correction=false:adam_epsilon=1e-7:channels=8:dropout=0.0", ALIKE),
    "promptbert-roberta-repo": Comparison(ADAMW, TOY, kind="roberta"),
    "promptbert-sup-roberta-repo": Comparison(ADAMW, NLI, kind="roberta"),
    "ct-repo": Comparison("min_chars=0", TOY),
    "esimcse-repo": Comparison(f"{ADAMW}:queue_size=10", TOY),
    "consert-repo": Comparison(SMALL, TOY, in_reverse),
    "diffcse-repo": Comparison(f"{ADAMW}:detection_weight=1.0:generator_dropout=false", TOY, third_masked),
    "infocse": Comparison(f"{ADAMW}:lower=1:mlm_weight=0.5", TOY, third_masked),
    "mixcse-repo": Comparison(ADAMW, TOY),
    "cot-bert-repo": Comparison(f"{ADAMW}:accumulate=1", TOY),
    "promcse": Comparison(f"{ADAMW}:dropout=0.0", TOY),
    "gcse": Comparison(ADAMW, NLI, drifted),
    "sentence-crops-repo": Comparison(f"{SMALL}:steps=10:dropout=0.0", DOCUMENTS),
    "rankcse-repo": Comparison(ADAMW, TOY, teachers),
    "rankcse-listnet-repo": Comparison(ADAMW, TOY, teachers),
    "prompteol-sup-repo": Comparison(f"{SMALL}:rank=4:alpha=6:warmup_steps=0", NLI, moved_adapters, "llama"),
    "angle-llama": Comparison(f"{ADAMW}:accumulate=1:rank=4:alpha=6:warmup_steps=0", NLI, moved_adapters, "llama"),
}


def write_backbone(folder: Path, kind: str) -> Path:
    """Write a random BERT, RoBERTa or LLaMA, 16 wide, with its head and a tokenizer of 128 tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedTokenizerFast

    special = SPECIALS[kind]
    free = (i for i in range(1, 128) if i not in special.values())
    vocabulary = special | {word: next(free) for word in WORDS}
    vocabulary |= {f"[unused{i}]": i for i in range(128) if i not in vocabulary.values()}
    begin, end, pad, unknown, mask = special
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing((end, special[end]), (begin, special[begin]))
    named = {"cls_token": begin, "sep_token": end, "pad_token": pad, "unk_token": unknown, "mask_token": mask}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=100, **named).save_pretrained(folder)
    torch.manual_seed(0)
    head: Any = AutoModelForCausalLM if kind == "llama" else AutoModelForMaskedLM
    head.from_config(AutoConfig.for_model(kind, **sizes(kind))).save_pretrained(folder)
    return folder


def sizes(kind: str) -> dict[str, Any]:
    """Return the configuration of a backbone."""
    return {**SIZES, "pad_token_id": SPECIALS[kind]["[PAD]" if kind == "bert" else "<pad>"]}


Batch = Callable[[np.ndarray], tuple[torch.Tensor, ...]]


def comparison_of(name: str, backbone: Path) -> tuple[Any, Objective, Batch, int]:
    """Return the encoder of a comparison, its objective without dropout, its batches by row numbers, and the rows."""
    comparison = COMPARISONS[name]
    cls, recipe = parse_methods(f"{name}:{comparison.settings}:backbone={backbone}", all_recipes())[0].resolve()
    encoder: Any = cls(recipe, Runtime())
    set_dropout(encoder.backbone.model, 0.0)
    comparison.prepare(encoder)
    batch, rows = encoder.training_rows(comparison.corpus, Run(seed=3))
    encoder.rows = rows
    torch.manual_seed(0)
    objective: Objective = encoder.objective()
    for module in objective.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return encoder, objective, batch, rows


def steps(encoder: Any, objective: Objective, batch: Batch, rows: int) -> list[float]:
    """Train for ten steps; return their losses."""
    losses: list[float] = []
    train(
        objective,
        batch,
        rows,
        dataclasses.replace(encoder.settings(), steps=STEPS, log_every=1),
        runtime=Runtime(),
        run=Run(seed=3, log_values=lambda _, values: losses.append(values["loss"])),
        backbone=encoder.backbone.model,
        dev_score=None,
    )
    return losses


def rounding(gradient: torch.Tensor) -> float:
    """Return how far a float32 gradient may lie from another machine's: sums of some ten thousand terms."""
    return 5e-6 + 256 * torch.finfo(torch.float32).eps * float(gradient.abs().max())


def assert_losses(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Raise AssertionError unless losses agree to 1e-5 for each step until then, as rounding adds up in the weights."""
    apart = np.abs(np.subtract(ours, theirs)) / (1 + np.abs(theirs))
    assert (apart <= 1e-5 * np.arange(1, len(apart) + 1)).all(), apart


def gradients(objective: Objective, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """Return the gradients of a batch by the names of their weights; the objective keeps none."""
    objective.train()
    objective(*batch).backward()
    gradients = {n: p.grad for n, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    return gradients


def prompts(encoder: Any) -> list[dict[str, list[int]]]:
    """Return the token ids of a recipe's templates in training: before the sentence, after it, and without one."""
    return [
        {"head": list(map(int, p.head)), "tail": list(map(int, p.tail)), "alone": list(map(int, p.alone))}
        for p in getattr(encoder, "training_prompts", ())
    ]


def start(name: str, backbone: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors where a comparison starts, weights and ten batches, and what else the release must know."""
    encoder, objective, batch, rows = comparison_of(name, backbone)
    tensors = {f"start.{k}": v.detach().clone().contiguous() for k, v in objective.state_dict().items()}
    batches: list[tuple[torch.Tensor, ...]] = []

    def noted(numbers: np.ndarray) -> tuple[torch.Tensor, ...]:
        batches.append(tuple(part.clone() for part in batch(numbers)))
        return batches[-1]

    losses = steps(encoder, objective, noted, rows)
    for i, parts in enumerate(batches):
        tensors |= {f"batch.{i}.{j}": part.contiguous() for j, part in enumerate(parts)}
    settings, *_, kind = COMPARISONS[name]
    facts = {"settings": settings, "ours": losses, "prompts": prompts(encoder), "config": sizes(kind)}
    return tensors, {key: json.dumps(value) for key, value in facts.items()}


class Dump(NamedTuple):
    """A file of a comparison: tensors by kind and name, and facts."""

    tensors: dict[str, torch.Tensor]
    facts: dict[str, Any]

    def named(self, kind: str) -> dict[str, torch.Tensor]:
        """Return the tensors of a kind: start, batch or gradient."""
        return {name.partition(".")[2]: value for name, value in self.tensors.items() if name.startswith(f"{kind}.")}

    def batches(self) -> list[tuple[torch.Tensor, ...]]:
        """Return the ten batches."""
        parts = self.named("batch")
        counts = [sum(name.startswith(f"{i}.") for name in parts) for i in range(STEPS)]
        return [tuple(parts[f"{i}.{j}"] for j in range(count)) for i, count in enumerate(counts)]


def read(path: Path) -> Dump:
    """Read a dump."""
    with safe_open(path, framework="pt") as file:
        return Dump(
            {name: file.get_tensor(name) for name in file.keys()},  # noqa: SIM118
            {key: json.loads(value) for key, value in file.metadata().items()},
        )


def main(folder: str, *names: str) -> None:
    """Write the starts of the named comparisons, or of all."""
    with tempfile.TemporaryDirectory() as scratch:
        backbones = {kind: write_backbone(Path(scratch) / kind, kind) for kind in SPECIALS}
        for name in names or COMPARISONS:
            tensors, facts = start(name, backbones[COMPARISONS[name].kind])
            save_file(tensors, Path(folder) / f"{name}.safetensors", facts)
            print(name, facts["ours"])


if __name__ == "__main__":
    main(*sys.argv[1:])
