"""BERT's tokenizer, made from its files without the transformers library.

The library does not read all of tokenizer.json: it makes a BERT tokenizer from the vocabulary and the options of
tokenizer_config.json. A folder where the two could differ is left to the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal

from tokenizers import AddedToken, Encoding, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from zoo.errors import ZooError
from zoo.files import read_mapping

_SPECIAL = {
    name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
}
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
_OPTIONS = {"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None}
# Entries of a tokenizer_config.json that say nothing about the ids of a text.
_NO_MATTER = {
    "backend",
    "clean_up_tokenization_spaces",
    "do_basic_tokenize",
    "is_local",
    "local_files_only",
    "model_max_length",
    "name_or_path",
    "never_split",
    "tokenizer_class",
}


@dataclass
class Tokens:
    """The tokens of some texts; `["input_ids"]` are their rows of token ids, as in the library's BatchEncoding."""

    encodings: list[Encoding]

    def __getitem__(self, name: Literal["input_ids"]) -> list[list[int]]:
        return [encoding.ids for encoding in self.encodings]


class WordPieceTokenizer:
    """What `zoo.engine.tokens` asks of a tokenizer, by the names of the library."""

    truncation_side = "right"

    def __init__(self, backend_tokenizer: Tokenizer) -> None:
        self.backend_tokenizer = backend_tokenizer
        self.pad_token_id = backend_tokenizer.token_to_id(_SPECIAL["pad_token"])

    def __len__(self) -> int:
        """Number of tokens, special and added ones included."""
        return self.backend_tokenizer.get_vocab_size()

    def num_special_tokens_to_add(self) -> int:
        """Return 2: [CLS] and [SEP]."""
        return self.backend_tokenizer.num_special_tokens_to_add(is_pair=False)

    def __call__(
        self, texts: Sequence[str], *, add_special_tokens: bool, truncation: bool, max_length: int | None, **_: object
    ) -> Tokens:
        """Return the tokens of texts, the row of a long one cut to `max_length` if there is truncation."""
        if truncation and max_length is not None:
            self.backend_tokenizer.enable_truncation(max_length)
        else:
            self.backend_tokenizer.no_truncation()
        return Tokens(self.backend_tokenizer.encode_batch(list(texts), add_special_tokens=add_special_tokens))


def read_wordpiece(folder: Path, rows: int) -> WordPieceTokenizer | None:
    """Return the tokenizer of a folder for a model of `rows` tokens; None where the library's might give other ids."""
    try:
        options = read_mapping(folder / "tokenizer_config.json")
        special = folder / "special_tokens_map.json"
        options |= read_mapping(special) if special.is_file() else {}
        state = read_mapping(folder / "tokenizer.json")
        vocabulary, added = state["model"]["vocab"], state["added_tokens"]
        known = [{"id": vocabulary[token], "content": token, **_FLAGS} for token in _SPECIAL.values()]
    except (ZooError, KeyError, TypeError):
        return None
    kind, never_split = options.get("tokenizer_class"), options.get("never_split")
    stated = _SPECIAL | _OPTIONS | {name: value for name, value in options.items() if name not in _NO_MATTER}
    is_plain = kind in ("BertTokenizer", "BertTokenizerFast") and state["model"].get("type") == "WordPiece"
    is_plain &= stated.keys() == _SPECIAL.keys() | _OPTIONS.keys() and _SPECIAL.items() <= stated.items()
    is_plain &= not never_split and sorted(added, key=itemgetter("id")) == sorted(known, key=itemgetter("id"))
    if not is_plain or len(vocabulary) != rows or sorted(vocabulary.values()) != list(range(rows)):
        return None
    backend = Tokenizer(WordPiece(vocabulary, unk_token=_SPECIAL["unk_token"]))
    backend.normalizer = BertNormalizer(
        handle_chinese_chars=stated["tokenize_chinese_chars"],
        strip_accents=stated["strip_accents"],
        lowercase=stated["do_lower_case"],
    )
    backend.pre_tokenizer = BertPreTokenizer()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL.values()])
    ends = [(_SPECIAL[name], vocabulary[_SPECIAL[name]]) for name in ("cls_token", "sep_token")]
    backend.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return WordPieceTokenizer(backend)
