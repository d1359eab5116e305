"""Averages of static token embeddings, with the four bias removals of PromptBERT (section 3, table 3, appendix A)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.backbone import Backbone, mlm_head_rows
from zoo.encoder import Runtime, Vectors
from zoo.errors import UsageError
from zoo.methods.base import BackboneEncoder, BackboneRecipe
from zoo.methods.static_lists import FREQUENT_BERT, FREQUENT_ROBERTA, PUNCTUATION_BERT
from zoo.tokens import TokenTable, clean_text, tokenise

STAGES = ("none", "freq", "freq-sub", "freq-sub-case", "freq-sub-case-pun")


@dataclass(frozen=True, kw_only=True)
class StaticRecipe(BackboneRecipe):
    """How many removals, cumulative as in table 3: frequent tokens, subwords, upper case, punctuation."""

    remove: Literal["none", "freq", "freq-sub", "freq-sub-case", "freq-sub-case-pun"] = "none"
    matrix: Literal["input", "output"] = "input"  # the token embeddings, or the MLM head's rows (appendix A.2)


class Static(BackboneEncoder):
    """Mean of the rows of the word-embedding matrix: no position, no type, no layer.

    Only the last stage is in the released code; it re-tokenises the kept, lower-cased words, and so do the stages from
    "case" on. The stages before it average the kept tokens as they are. Once anything is removed, [CLS] and [SEP] are
    out as well; a text with nothing left is [PAD] (BERT) or a lone blank (RoBERTa).

    Example:
        >>> from zoo import Runtime
        >>> Static(Static.Recipe(remove="freq"), Runtime()).encode(["the dog is on the table"]).shape
        (1, 256)
    """

    Recipe: ClassVar[type] = StaticRecipe

    def __init__(self, recipe: Any, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        tokenizer = self.backbone.tokenizer
        vocabulary = tokenizer.get_vocab()
        self.tokens = tokenizer.convert_ids_to_tokens(list(range(max(vocabulary.values()) + 1)))
        self.roberta = "Ġthe" in vocabulary
        if recipe.remove != "none" and not self.roberta and "##s" not in vocabulary:
            raise UsageError(
                f"static: bias removal knows WordPiece (##) and RoBERTa (Ġ) vocabularies;"
                f" {recipe.backbone!r} has neither. Use remove: none."
            )
        if recipe.matrix == "input":
            self.vectors = self.backbone.model.get_input_embeddings().weight.detach().float()
        else:
            self.vectors = mlm_head_rows(self.backbone.source, runtime)
        self.keep = np.array([token is not None and self._kept(token) for token in self.tokens])

    def _kept(self, token: str) -> bool:
        stage = STAGES.index(self.recipe.remove)
        frequent = FREQUENT_ROBERTA if self.roberta else FREQUENT_BERT
        if stage >= 1 and token in frequent:  # case-sensitive, before lowering, as in the code
            return False
        if stage >= 2 and ("Ġ" not in token if self.roberta else "##" in token):
            return False
        if stage >= 4:
            return re.search("[a-zA-Z0-9]", token) is not None if self.roberta else token not in PUNCTUATION_BERT
        return True

    def _encode_unique(self, texts: list[str]) -> Vectors:
        tokenizer = self.backbone.tokenizer
        if self.recipe.remove == "none":
            table = tokenise(tokenizer, texts, max_length=self.recipe.max_length)
            return self._average(table)
        table = tokenise(
            tokenizer, [" " + clean_text(t, i) for i, t in enumerate(texts)], max_length=None, add_special_tokens=False
        )
        if STAGES.index(self.recipe.remove) < STAGES.index("freq-sub-case"):
            return self._average(_filtered(table, self.keep, self._nothing_left()))
        kept = [self._kept_words(table.row(i)) for i in range(len(table))]
        return self._average(tokenise(tokenizer, kept, max_length=self.recipe.max_length, add_special_tokens=False))

    def _kept_words(self, ids: NDArray[np.int32]) -> str:
        words = [self.tokens[i].replace("Ġ", "").lower() for i in ids if self.keep[i]]
        if self.roberta:  # the code starts from one blank and ends every word with one
            return " " + "".join(word + " " for word in words)
        return " ".join(words) or str(self.backbone.tokenizer.pad_token)

    def _nothing_left(self) -> int:
        if self.roberta:
            return int(self.backbone.tokenizer.convert_tokens_to_ids("Ġ"))
        return self.backbone.pad_id

    def _average(self, table: TokenTable) -> Vectors:
        self.stats.texts += len(table)
        self.stats.tokens += len(table.ids)
        self.stats.truncated += table.truncated
        device = self.vectors.device
        ids = torch.from_numpy(table.ids.astype(np.int64)).to(device)
        offsets = torch.from_numpy(table.offsets[:-1]).to(device)
        return torch.nn.functional.embedding_bag(ids, self.vectors, offsets, mode="mean").cpu().numpy()


def _filtered(table: TokenTable, keep: NDArray[np.bool_], nothing_left: int) -> TokenTable:
    rows = [table.row(i)[keep[table.row(i)]] for i in range(len(table))]
    rows = [row if len(row) else np.array([nothing_left], np.int32) for row in rows]
    lengths = [len(row) for row in rows]
    ids = np.concatenate(rows) if rows else np.empty(0, np.int32)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
