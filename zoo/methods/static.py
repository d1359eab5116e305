"""Averages of static token embeddings, with the four bias removals of PromptBERT (section 3, table 3, appendix A)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits, Vectors
from zoo.engine.backbone import Backbone
from zoo.engine.heads import mlm_head_rows
from zoo.engine.needs import Need
from zoo.engine.tokens import TokenTable, clean_text, tokenise
from zoo.errors import ContractError, UsageError
from zoo.files import read_json, sha256_json, write_json
from zoo.methods.base import BackboneEncoder, BackboneFields, BackboneRecipe, check_positive
from zoo.methods.static_lists import FREQUENT_BERT, FREQUENT_ROBERTA, PUNCTUATION_BERT
from zoo.methods.wordvectors import any_row
from zoo.plugins import register_method
from zoo.recipes import added

_CHUNK = 20_000
_FEW = 4

STAGES = ("none", "freq", "freq-sub", "freq-sub-case", "freq-sub-case-pun")


@dataclass(frozen=True, kw_only=True)
class StaticRecipe(BackboneRecipe):
    """Removals, cumulative as in table 3: frequent tokens, subwords, upper case, punctuation."""

    remove: Literal["none", "freq", "freq-sub", "freq-sub-case", "freq-sub-case-pun"] = "none"
    # The token embeddings, or the MLM head's rows (appendix A.2).
    matrix: Literal["input", "output"] = added("input")
    # Frequent tokens, counted in the corpus. None: the paper's own list.
    frequent: int | None = added(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "frequent")
        if self.frequent is not None and self.remove == "none":
            raise ValueError("frequent is for the stages that remove frequent tokens; set remove: freq or beyond")


def static_start(recipe: BackboneFields, matrix: Literal["input", "output"] = "input") -> Start:
    fields: dict[str, Any] = {name: getattr(recipe, name) for name in ("backbone", "revision", "max_length")}
    return Start("static", StaticRecipe(matrix=matrix, **fields))


@register_method("static")
class Static(BackboneEncoder[StaticRecipe]):
    """Mean of the rows of the word-embedding matrix, without position or type embeddings or a layer.

    Only the last stage is in the released code. It tokenises the remaining words again in lower case, as do all stages
    from "case" on; earlier stages average the remaining tokens directly. Every removal also removes [CLS] and [SEP]; an
    emptied text becomes [PAD] (BERT) or a single blank (RoBERTa).

    Examples:
        >>> from zoo import Runtime
        >>> Static(Static.Recipe(remove="freq"), Runtime()).encode(["the dog is on the table"]).shape
        (1, 384)
    """

    # The engine, whose version the base has, makes none of its vectors.
    version = 1

    def __init__(self, recipe: StaticRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        tokenizer = self.backbone.tokenizer
        vocabulary = tokenizer.get_vocab()
        self.tokens = tokenizer.convert_ids_to_tokens(list(range(max(vocabulary.values()) + 1)))
        self.roberta = "Ġthe" in vocabulary
        if recipe.remove != "none" and not self.roberta and "##s" not in vocabulary:
            raise UsageError(
                f"static: bias removal is for WordPiece (##) and RoBERTa (Ġ) vocabularies;"
                f" {recipe.backbone!r} has neither. Use remove: none."
            )
        if recipe.matrix == "input":
            self.vectors = self.backbone.token_vectors.float()
        else:
            self.vectors = mlm_head_rows(self.backbone.source, runtime)
        self.dim = self.vectors.shape[1]
        lists = FREQUENT_ROBERTA if self.roberta else FREQUENT_BERT
        self._drop(lists if recipe.frequent is None else ())

    def _drop(self, frequent: Iterable[str]) -> None:
        self.frequent = frozenset(frequent)
        self.keep = np.array([token is not None and self._kept(token) for token in self.tokens])

    def _kept(self, token: str) -> bool:
        stage = STAGES.index(self.recipe.remove)
        # Case-sensitive, before lower-casing, as in the code.
        if stage >= 1 and token in self.frequent:
            return False
        if stage >= 2 and ("Ġ" not in token if self.roberta else "##" in token):
            return False
        if stage >= 4:
            return re.search("[a-zA-Z0-9]", token) is not None if self.roberta else token not in PUNCTUATION_BERT
        return True

    @classmethod
    def needs(cls, recipe: StaticRecipe) -> frozenset[Need]:
        return frozenset({"MLM head"} if recipe.matrix == "output" else ())

    @classmethod
    def traits(cls, recipe: StaticRecipe) -> Traits:
        return Traits(needs_corpus=recipe.frequent is not None)

    @classmethod
    def start(cls, recipe: StaticRecipe) -> Start | None:
        return None if recipe.frequent is None else static_start(recipe, recipe.matrix)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """With `frequent`, count tokens as split in encoding; ties break by token id."""
        if self.recipe.frequent is None:
            return FitReport()
        if corpus is None:
            raise ContractError("static with frequent counts tokens in a corpus; pass --corpus.")
        counts = np.zeros(len(self.tokens), np.int64)
        for texts in self.runtime.progress.chunks("counting tokens", corpus.sentences, _CHUNK):
            counts += np.bincount(self._split(texts).ids, minlength=len(counts))
        first = np.argsort(-counts, kind="stable")[: self.recipe.frequent]
        self._drop(self.tokens[i] for i in first if counts[i])
        return FitReport(fitted=True, sentences=len(corpus.sentences), facts=self.facts())

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """False only for an emptied text with vector 0 (untrained [PAD])."""
        if self.vectors[self._nothing_left()].any():
            return super().covers(texts)
        return any_row(self._table(list(texts)), self.vectors.any(dim=1).cpu().numpy())

    def _encode_unique(self, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = self._average(self._table(texts))
        self.stats.seconds += time.perf_counter() - started
        return vectors

    def _split(self, texts: Sequence[str]) -> TokenTable:
        blanks = [" " + clean_text(text, i) for i, text in enumerate(texts)]
        return tokenise(self.backbone.tokenizer, blanks, max_length=None, add_special_tokens=False)

    def _table(self, texts: list[str]) -> TokenTable:
        tokenizer = self.backbone.tokenizer
        if self.recipe.remove == "none":
            return tokenise(tokenizer, texts, max_length=self.recipe.max_length)
        table = self._split(texts)
        if STAGES.index(self.recipe.remove) < STAGES.index("freq-sub-case"):
            return _filtered(table, self.keep, self._nothing_left())
        filtered = [self._kept_words(table.row(i)) for i in range(len(table))]
        return tokenise(tokenizer, filtered, max_length=self.recipe.max_length, add_special_tokens=False)

    def _kept_words(self, ids: NDArray[np.int32]) -> str:
        words = [self.tokens[i].replace("Ġ", "").lower() for i in ids if self.keep[i]]
        # The code starts with a blank and adds one after every word.
        if self.roberta:
            return " " + "".join(word + " " for word in words)
        return " ".join(words) or str(self.backbone.tokenizer.pad_token)

    def _nothing_left(self) -> int:
        if self.roberta:
            tokenizer = self.backbone.tokenizer
            return int(tokenizer.get_vocab().get("Ġ", tokenizer.unk_token_id))
        return self.backbone.pad_id

    def _average(self, table: TokenTable) -> Vectors:
        self.stats.texts += len(table)
        self.stats.tokens += len(table.ids)
        self.stats.add_truncated(table.truncated)
        device = self.vectors.device
        averages = np.empty((len(table), self.dim), np.float32)
        if len(table) <= _FEW and device.type == "cpu":
            # The same sums in the same order; torch's call takes five times as long as the few additions.
            rows = self.vectors.numpy()
            for place in range(len(table)):
                ids = table.row(place)
                np.divide(np.add.reduce(rows[ids]), np.float32(max(len(ids), 1)), out=averages[place])
            return averages
        for start in range(0, len(table), _CHUNK):
            offsets = table.offsets[start : start + _CHUNK + 1]
            bag = torch.from_numpy(table.ids[offsets[0] : offsets[-1]].astype(np.int64)).to(device)
            starts = torch.from_numpy(offsets[:-1] - offsets[0]).to(device)
            bags = torch.nn.functional.embedding_bag(bag, self.vectors, starts, mode="mean")
            averages[start : start + _CHUNK] = bags.cpu().numpy()
        return averages

    def facts(self) -> dict[str, Any]:
        return {} if self.recipe.frequent is None else {"frequent": sorted(self.frequent)}

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.recipe.frequent is not None:
            write_json(folder / "frequent.json", sorted(self.frequent))

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        if encoder.recipe.frequent is not None:
            encoder._drop(read_json(folder / "frequent.json"))
        return encoder

    def parameters(self) -> int:
        return int(self.vectors.numel())

    def fingerprint(self) -> str:
        return sha256_json([super().fingerprint(), self.facts()])


def _filtered(table: TokenTable, keep: NDArray[np.bool_], nothing_left: int) -> TokenTable:
    rows = [table.row(i)[keep[table.row(i)]] for i in range(len(table))]
    rows = [row if len(row) else np.array([nothing_left], np.int32) for row in rows]
    lengths = [len(row) for row in rows]
    ids = np.concatenate(rows) if rows else np.empty(0, np.int32)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
