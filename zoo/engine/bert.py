"""A BERT for evaluation, with the library's names of weights, and its tokenizer, read from files without transformers.

The library's tokenizer ignores parts of tokenizer.json: it is made from the vocabulary and tokenizer_config.json's
options. Any folder other than a plain BERT's, or where results could differ, goes to the library with all its checks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn

from zoo.errors import UsageError, ZooError
from zoo.files import read_mapping
from zoo.tensors import read_tensors

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_SPECIAL = {
    name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
}
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
_OPTIONS = {"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None}
# Entries of a tokenizer_config.json that say nothing about the ids of a text.
_WITHOUT_EFFECT = {
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


class WordPieceTokenizer:
    """The library's tokenizer interface, as far as `zoo.engine.tokens` uses it."""

    truncation_side = "right"

    def __init__(self, backend_tokenizer: Tokenizer) -> None:
        self.backend_tokenizer = backend_tokenizer
        self.pad_token_id = backend_tokenizer.token_to_id(_SPECIAL["pad_token"])

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    def num_special_tokens_to_add(self) -> int:
        return self.backend_tokenizer.num_special_tokens_to_add(is_pair=False)


def read_wordpiece(folder: Path, rows: int) -> WordPieceTokenizer | None:
    """Tokenizer for a model of `rows` tokens; None if the library's ids might differ."""
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
    stated = _SPECIAL | _OPTIONS | {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}
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


# Entries of a config.json that say nothing about the states of an encoder.
_NO_MATTER = {
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attention_probs_dropout_prob",
    "bos_token_id",
    "classifier_dropout",
    "dtype",
    "eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "initializer_range",
    "tie_word_embeddings",
    "torch_dtype",
    "transformers_version",
    "use_cache",
}
# The prefix of names in checkpoints with a head, and weights that no state depends on.
_PREFIX = "bert."
_UNREAD = ("cls.", "pooler.", "embeddings.position_ids")


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT, named as in config.json; entries without a default are required."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    pad_token_id: int = 0
    model_type: str = "bert"
    hidden_act: str = "gelu"
    position_embedding_type: str = "absolute"
    is_decoder: bool = False


def bert_config(folder: Path) -> BertConfig | None:
    """Sizes of a plain BERT; None for any other or unreadable folder."""
    try:
        stated = read_mapping(folder / "config.json")
    except ZooError:
        return None
    sizes = {name: value for name, value in stated.items() if name not in _NO_MATTER}
    kinds = {"int": int, "float": float, "str": str, "bool": bool}
    known = {field.name: kinds[str(field.type)] for field in fields(BertConfig)}
    if stated.get("model_type") != "bert" or any(type(value) is not known.get(name) for name, value in sizes.items()):
        return None
    try:
        config = BertConfig(**sizes)
    except TypeError:
        return None
    plain = ("gelu", "absolute", False)
    is_plain = (config.hidden_act, config.position_embedding_type, config.is_decoder) == plain
    return config if is_plain and config.hidden_size % max(config.num_attention_heads, 1) == 0 else None


def _unset(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def _embedding(rows: int, width: int) -> nn.Embedding:
    return nn.Embedding(rows, width, _weight=_unset(rows, width))


def _linear(width: int, out: int) -> nn.Linear:
    """A map without weights: random weights on "meta" would import torch's compiler."""
    module = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(module)
    module.in_features, module.out_features = width, out
    module.weight, module.bias = nn.Parameter(_unset(out, width)), nn.Parameter(_unset(out))
    return module


class _Part(nn.Module):
    def __init__(self, /, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


class _Embeddings(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = _embedding(config.vocab_size, size)
        self.position_embeddings = _embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = _embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Token ids (n, length) -> (n, length, dim); sums in the library's order."""
        embedded = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0]
        normed: torch.Tensor = self.LayerNorm(embedded + self.position_embeddings.weight[: input_ids.shape[1]])
        return normed


class Bert(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.encoder = _Part(layer=nn.ModuleList(_layer(config) for _ in range(config.num_hidden_layers)))

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings.word_embeddings


def _layer(config: BertConfig) -> nn.Module:
    size, inner = config.hidden_size, config.intermediate_size

    def output(width: int) -> nn.Module:
        norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        return _Part(dense=_linear(width, size), LayerNorm=norm, dropout=nn.Identity())

    maps: Any = _Part(**{name: _linear(size, size) for name in ("query", "key", "value")}, dropout=nn.Dropout(0))
    maps.num_attention_heads = config.num_attention_heads
    middle: Any = _Part(dense=_linear(size, inner))
    middle.intermediate_act_fn = F.gelu
    return _Part(attention=_Part(self=maps, output=output(size)), intermediate=middle, output=output(inner))


def read_plain_bert(folder: Path) -> tuple[Bert, WordPieceTokenizer] | None:
    """Model (float32) and tokenizer of a folder; None unless it is exactly a plain BERT's."""
    config, path = bert_config(folder), folder / "model.safetensors"
    if config is None or not path.is_file() or (reader := read_wordpiece(folder, config.vocab_size)) is None:
        return None
    try:
        tensors = read_tensors(path)[0]
    except ZooError:
        return None
    weights = {name.removeprefix(_PREFIX): tensor.float() for name, tensor in tensors.items()}
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith(_UNREAD)}
    model = Bert(config)
    wanted = {name: weight.shape for name, weight in model.state_dict().items()}
    if {name: weight.shape for name, weight in weights.items()} != wanted:
        return None
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False).eval(), reader


class ScoresByEmbeddings(nn.Module):
    """A copy of the token embeddings, for a head that takes them as argument (newer DeBERTa)."""

    def __init__(self, head: nn.Module, embeddings: nn.Module) -> None:
        super().__init__()
        self.head = head
        self.words = copy.deepcopy(embeddings)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(states, self.words)
        return logits


def mlm_head_of(model: PreTrainedModel, name: str) -> nn.Module:
    """A model's MLM head, (n, dim) -> (n, vocabulary); raises UsageError for an unknown kind."""
    # The heads in turn: BERT, newer DeBERTa, RoBERTa, ALBERT, DistilBERT, ELECTRA, ModernBERT.
    if hasattr(model, "cls"):
        return model.get_submodule("cls.predictions")
    if hasattr(model, "lm_predictions"):
        return ScoresByEmbeddings(model.get_submodule("lm_predictions.lm_head"), model.get_input_embeddings())
    if hasattr(model, "lm_head"):
        return model.get_submodule("lm_head")
    if hasattr(model, "predictions"):
        return model.get_submodule("predictions")
    if hasattr(model, "vocab_projector"):
        return _sequence(model, "vocab_transform", "activation", "vocab_layer_norm", "vocab_projector")
    if hasattr(model, "generator_predictions"):
        return _sequence(model, "generator_predictions", "generator_lm_head")
    if hasattr(model, "head") and hasattr(model, "decoder"):
        return _sequence(model, "head", "decoder")
    raise UsageError(f"backbone {name!r}: where {type(model).__name__} has its MLM head is not known; use another one.")


def _sequence(model: PreTrainedModel, *names: str) -> nn.Sequential:
    return nn.Sequential(*(model.get_submodule(name) for name in names))


def transform_of(head: nn.Module) -> tuple[nn.Linear, nn.LayerNorm] | None:
    """Dense layer and LayerNorm before a head's scores; None if unknown."""
    dense = [module for module in head.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in head.modules() if isinstance(module, nn.LayerNorm)]
    inner = [layer for layer in dense if norms and layer.out_features == norms[0].normalized_shape[0]]
    return (inner[0], norms[0]) if inner else None
