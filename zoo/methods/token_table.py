"""Base class of methods on a table of token vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import AnyRecipe, Runtime, Vectors
from zoo.engine.backbone import Backbone, BackboneSource, sha256_weights
from zoo.engine.model_folder import cannot_load, check_tokenizer_files, load_pretrained
from zoo.engine.tokens import ChunkTokens, TokenTable, clean_text
from zoo.errors import CorruptError, UsageError
from zoo.files import read_json, sha256_json, write_text
from zoo.formats.export import StaticModules
from zoo.methods.counted import CountedEncoder
from zoo.methods.wordvectors import any_row
from zoo.plugins import method_identity
from zoo.recipes import build
from zoo.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def tokenizer_of(source: BackboneSource) -> Tokenizer:
    """Backend of a backbone's tokenizer; raises UsageError for Python code."""
    from transformers import AutoTokenizer

    check_tokenizer_files(f"backbone {source.name!r}", source.folder)
    try:
        backend: Tokenizer | None = getattr(load_pretrained(AutoTokenizer, source.folder), "backend_tokenizer", None)
    except Exception as error:
        # The library raises many kinds.
        raise cannot_load(f"backbone {source.name!r}", source.folder, error) from error
    if backend is None:
        raise UsageError(f"backbone {source.name!r} has a tokenizer of Python code; a token table needs a fast one.")
    return backend


def backbone_table(
    name: str, revision: str | None, dim: int | None, runtime: Runtime
) -> tuple[Tokenizer, torch.Tensor]:
    """Tokenizer and token embeddings (vocabulary, width), or their first `dim` directions."""
    backbone = Backbone.load(name, revision, runtime)
    tokenizer = tokenizer_of(backbone.source)
    vectors = backbone.token_vectors.float().cpu()[: tokenizer.get_vocab_size()]
    if dim is not None and dim < vectors.shape[1]:
        vectors = vectors @ torch.linalg.eigh(vectors.T @ vectors).eigenvectors.flip(1)[:, :dim]
    return tokenizer, vectors


def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.to_str().encode("utf-8", "surrogatepass")).hexdigest()


def bags(table: TokenTable) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and each text's first place, the input of `torch.nn.EmbeddingBag`."""
    return torch.from_numpy(table.ids.astype(np.int64)), torch.from_numpy(table.offsets[:-1])


TableT = TypeVar("TableT", bound=AnyRecipe, default=Any)


class TokenTableEncoder(CountedEncoder[TableT]):
    """Mean of a text's token vectors, scaled to length 1; the unknown token does not count."""

    def __init__(self, recipe: TableT, runtime: Runtime, tokenizer: Tokenizer, vectors: torch.Tensor) -> None:
        super().__init__(recipe, runtime)
        if tokenizer.get_vocab_size() != len(vectors):
            raise CorruptError(
                f"the table has {len(vectors):,} token vectors and the tokenizer {tokenizer.get_vocab_size():,} tokens:"
                " it is of another vocabulary; take both from the same model."
            )
        name = getattr(tokenizer.model, "unk_token", None)
        unknown = None if name is None else tokenizer.token_to_id(name)
        self.tokens = ChunkTokens(tokenizer, () if unknown is None else (unknown,))
        self.use(vectors)

    def use(self, vectors: torch.Tensor) -> None:
        """Take a table (vocabulary, dim); the unknown token's row becomes 0."""
        vectors = vectors.detach().float().clone()
        vectors[list(self.tokens.dropped)] = 0
        vectors = vectors.to(self.runtime.device)
        self.bag = torch.nn.EmbeddingBag(len(vectors), vectors.shape[1], mode="mean", _weight=vectors)
        self.dim = vectors.shape[1]

    def means(self, table: TokenTable) -> torch.Tensor:
        """Mean rows (texts, dim), with gradient; 0 without known tokens."""
        device = self.runtime.device
        means: torch.Tensor = self.bag(*(part.to(device) for part in bags(table)))
        return means

    @torch.no_grad()
    def vectors_of(self, texts: list[str]) -> Vectors:
        table = self.tokens.table(texts)
        self.stats.tokens += len(table.ids)
        return F.normalize(self.means(table), dim=-1).cpu().numpy()

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        table = self.tokens.table([clean_text(text, i) for i, text in enumerate(texts)])
        return any_row(table, self.bag.weight.detach().any(dim=1).cpu().numpy())

    def stock_modules(self) -> StaticModules:
        return StaticModules(self.tokens.tokenizer, self.bag.weight.detach().cpu())

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_text(folder / "tokenizer.json", self.tokens.tokenizer.to_str())
        write_tensors(folder / "table.safetensors", {"table": self.bag.weight.detach()})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        from tokenizers import Tokenizer

        encoder = cls.__new__(cls)
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        table = read_tensors(folder / "table.safetensors")[0]["table"]
        TokenTableEncoder.__init__(encoder, recipe, runtime or Runtime(), tokenizer, table)
        return encoder

    def fingerprint(self) -> str:
        name = method_identity(type(self))
        return sha256_json([name, tokenizer_sha256(self.tokens.tokenizer), sha256_weights(self.bag)])

    def parameters(self) -> int:
        return self.bag.weight.numel()
