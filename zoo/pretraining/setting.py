"""The data of training and scoring: backbones by name, the tokenised text, and its held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Runtime
from zoo.engine.backbone import BackboneSource
from zoo.engine.model_folder import config_of
from zoo.errors import MissingError, UsageError
from zoo.files import sha256_file, sha256_json
from zoo.pretraining.mlm import CausalObjective, HeldOut, Masking, MLMObjective, held_out_scores
from zoo.pretraining.models import (
    ancestry,
    check_same_vocabulary,
    find_with_tokenizer,
    load_model,
    load_tokenizer,
)
from zoo.pretraining.parts import positions_of
from zoo.pretraining.recipe import TRAINED_TOKENIZERS, PretrainRecipe
from zoo.pretraining.starts import find_table, table_rows
from zoo.pretraining.text import TokenStream, tokenise_files
from zoo.pretraining.tokenizers import evenly, kept_tokenizer, train_tokenizer
from zoo.pretraining.vocabulary import SampledVocabulary
from zoo.training.checkpoint import undisturbed

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_HELD_OUT_BLOCK = 32  # neighbouring rows are held out together, so that few share an article with training rows
_LARGEST = 2**16  # tokens of a vocabulary, because token files have two bytes per token


@dataclass(frozen=True)
class PlainTexts:
    """Text files to train on, how to read them, and which sentences to leave out."""

    paths: list[Path]
    read: Callable[[Path], Iterable[str]]
    cache: Path  # folder of the token files
    exclude: frozenset[str] = frozenset()  # normalised
    normalise: Callable[[str], str] = str

    def key(self) -> dict[str, Any]:
        """Return the files' sha256 and the exclusions, which determine the sentences."""
        return {"files": [sha256_file(path) for path in self.paths], "exclude": sorted(self.exclude)}

    def sentences(self) -> Iterable[str]:
        """Yield all sentences that are not excluded."""
        for path in self.paths:
            for sentence in self.read(path):
                if not self.exclude or self.normalise(sentence) not in self.exclude:
                    yield sentence


@dataclass(frozen=True)
class Names:
    """The backbones that a recipe names; they are found before any text is read."""

    tokenizer: BackboneSource | None  # None: trained on the text
    begin_from: BackboneSource | None
    teacher: BackboneSource | None

    @property
    def ancestry(self) -> dict[str, list[str]]:
        """The ancestors of the weights: the initial backbone and the teacher."""
        return ancestry(*(source for source in (self.begin_from, self.teacher) if source is not None))


def find_names(recipe: PretrainRecipe) -> Names:
    """Find every backbone of a recipe; raises MissingError or UsageError if one is missing or does not fit."""
    trained = recipe.tokenizer in TRAINED_TOKENIZERS
    table = recipe.table if recipe.begin_from is None else None
    if table is not None:
        find_table(table)
    begin_from = None if recipe.begin_from is None else find_with_tokenizer(recipe.begin_from, "begin_from")
    teacher = None if recipe.teacher is None else find_with_tokenizer(recipe.teacher, "teacher")
    others = [(source, name) for source, name in ((begin_from, "begin_from"), (teacher, "teacher")) if source]
    if trained:
        if recipe.vocabulary > _LARGEST:
            raise UsageError(f"the token files hold vocabularies up to {_LARGEST:,}, not {recipe.vocabulary:,}.")
        for source, name in others:
            raise UsageError(
                f"{name} {source.name!r} has a vocabulary of its own, so tokenizer={recipe.tokenizer} cannot be trained"
                f" for it; set tokenizer={source.name}."
            )
        return Names(None, None, None)
    tokenizer = find_with_tokenizer(recipe.tokenizer, "tokenizer")
    known = load_tokenizer(tokenizer, "tokenizer")
    if len(known) > _LARGEST:
        raise UsageError(
            f"the token files hold vocabularies up to {_LARGEST:,}; {recipe.tokenizer!r} has {len(known):,}."
        )
    if table is not None:
        table_rows(table, known.get_vocab())
    for source, name in others:
        check_same_vocabulary(source, known, name, recipe.tokenizer)
    if begin_from is not None:
        most = positions_of(config_of(f"backbone {begin_from.name!r}", begin_from.folder))
        if max(recipe.row_lengths) > most:
            raise UsageError(
                f"rows of {max(recipe.row_lengths)} tokens are longer than the {most} positions of"
                f" {recipe.begin_from!r}."
            )
    return Names(tokenizer, begin_from, teacher)


def split_rows(rows: int, held_out: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the training rows and of the held-out rows: blocks spread evenly over the text."""
    blocks = max(held_out // _HELD_OUT_BLOCK, 1)
    if rows < 4 * blocks * _HELD_OUT_BLOCK:
        raise UsageError(
            f"the text makes {rows:,} rows of tokens, too few to hold out {held_out:,} of them (at most a quarter);"
            " give more text, or lower held_out_rows."
        )
    starts = np.linspace(0, rows - _HELD_OUT_BLOCK, blocks).astype(np.int64)
    held = np.unique((starts[:, None] + np.arange(_HELD_OUT_BLOCK)).ravel())
    return np.setdiff1d(np.arange(rows), held), held


def rows_beside(held: NDArray[np.int64], held_length: int, rows: int, length: int) -> NDArray[np.int64]:
    """Return which of `rows` rows of `length` tokens share no token with held-out rows of `held_length` tokens."""
    inner, held_inner = length - 2, held_length - 2  # without [CLS] and [SEP]
    numbers = np.arange(rows)
    first, last = numbers * inner // held_inner, (numbers * inner + inner - 1) // held_inner
    flags = np.zeros(int(max(last.max(initial=0), held.max(initial=0))) + 2, np.int64)
    flags[held + 1] = 1
    before = np.cumsum(flags)
    beside: NDArray[np.int64] = numbers[before[last + 1] == before[first]]
    return beside


class Setting:
    """The tokenised text, its held-out rows and the tokenizer."""

    def __init__(self, recipe: PretrainRecipe, texts: PlainTexts, runtime: Runtime) -> None:
        for path in texts.paths:
            if not path.is_file():
                raise MissingError(f"text {path} does not exist.")
        self.recipe, self.runtime = recipe, runtime
        self.names = find_names(recipe)
        self.tokenizer, identity = self._tokenizer(texts)
        self.stream: TokenStream = tokenise_files(
            texts.paths,
            texts.read,
            self.tokenizer,
            identity,
            texts.cache,
            exclude=texts.exclude,
            normalise=texts.normalise,
            progress=runtime.progress,
        )
        self.rows, held = split_rows(self.stream.rows(recipe.row_length), recipe.held_out_rows)
        self.training_rows = {recipe.row_length: self.rows}
        for length in recipe.row_lengths[1:]:
            more = rows_beside(held, recipe.row_length, self.stream.rows(length), length)
            self.training_rows.setdefault(length, more)
        batches = np.array_split(held, math.ceil(len(held) / 64))
        self.held = [self.batch(rows, recipe.row_length).to(runtime.device) for rows in batches]

    def _tokenizer(self, texts: PlainTexts) -> tuple[Any, str]:
        """Return the tokenizer, trained on the text if the recipe says so, and its identity."""
        recipe, source = self.recipe, self.names.tokenizer
        if source is not None:
            return load_tokenizer(source, "tokenizer"), source.sha256
        fields = [recipe.tokenizer, recipe.vocabulary, recipe.tokenizer_sentences]
        key = sha256_json([*fields, texts.key()])

        def train() -> PreTrainedTokenizerBase:
            total = sum(1 for _ in texts.sentences())
            some = evenly(texts.sentences(), total, recipe.tokenizer_sentences)
            return train_tokenizer(recipe.tokenizer, some, recipe.vocabulary, self.runtime.progress)

        return kept_tokenizer(texts.cache / f"{recipe.tokenizer}-{key[:16]}", key, train)

    def batch(self, rows: NDArray[np.int64], length: int) -> torch.Tensor:
        """Return rows (n, length) of token ids."""
        tokenizer = self.tokenizer
        return torch.from_numpy(self.stream.packed(rows, length, tokenizer.cls_token_id, tokenizer.sep_token_id))

    def objective(self, model: PreTrainedModel) -> MLMObjective:
        """Return the objective of a model, on the runtime's device."""
        recipe, device = self.recipe, self.runtime.device
        masking = Masking.of(self.tokenizer, model.config.vocab_size)
        sampled = teacher = None
        part = recipe.frequent_tokens + recipe.drawn_tokens
        if recipe.vocabulary_loss == "sampled" and part < model.config.vocab_size:
            counts = np.bincount(self.stream.ids, minlength=model.config.vocab_size)
            sampled = SampledVocabulary(counts, recipe.frequent_tokens, recipe.drawn_tokens)
        if recipe.teacher is not None:
            teacher = load_model(recipe.teacher).to(device)
        for one in (model, teacher):
            if one is not None and device == "cpu":
                one.set_attn_implementation("eager")  # the fused backward pass is slower on a CPU at these lengths
        kind = CausalObjective if model.config.model_type == "gpt2" else MLMObjective
        return kind(model, recipe, masking, sampled=sampled, teacher=teacher).to(device)

    def score(self, objective: MLMObjective) -> HeldOut:
        """Return the held-out scores, without changing random state or modes."""
        with undisturbed(objective):
            return held_out_scores(objective, self.held)
