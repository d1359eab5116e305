"""Finished encoders, of sentence-transformers or plain checkpoints."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from zoo.check import deviation
from zoo.encoder import Encoder, Runtime, Traits, Vectors
from zoo.engine.backbone import Backbone, BackboneSource, find_backbone, positions_of, without_pooler
from zoo.engine.batching import EncodingStats, autocast, encode_unique
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.engine.narrow import all_rows_alike
from zoo.engine.states import Pooling
from zoo.engine.tokens import TokenTable, clean_text
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_json, sha256_json, write_json
from zoo.formats.export import EXPORTED_POOLINGS, StockModules
from zoo.formats.finished import (
    AGREES,
    cut_texts,
    load_finished,
    noted,
    padded_right,
    pooled_elsewhere,
    sample,
    taken_over,
    trained_pooler,
)
from zoo.formats.onnx import ALONE, OnnxModel, onnx_digests, onnx_file
from zoo.methods.base import BackboneEncoder, check_positive, count_parameters
from zoo.methods.promcse import Prefix, PrefixPooler, released_prefix
from zoo.paths import is_file
from zoo.plugins import register_method
from zoo.recipes import added, build
from zoo.roles import Role, Roles, roles_of

_UNLIMITED = 2**20

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Module


@dataclass(frozen=True, kw_only=True)
class PretrainedRecipe:
    """A plain checkpoint (such as SimCSE's releases) states no pooling, so the recipe must."""

    model: str = DEFAULT_BACKBONE
    revision: str | None = None
    # None: the folder's; "pooler": [CLS] through the checkpoint's own linear layer and tanh
    pooling: Literal["cls", "mean", "cls-mean", "max", "first-last-h0", "first-last-h1", "top2", "pooler"] | None = None
    max_length: int | None = None  # None: the folder's
    prompt: str | None = added(None)  # before every text; None: the folder's prompts
    query_prompt: str | None = added(None)  # before queries, None: `prompt`
    document_prompt: str | None = added(None)  # before documents, None: `prompt`
    # what runs the transformer: torch, or onnxruntime (extra `onnx`) on an ONNX file of the folder
    backend: Literal["torch", "onnx"] = added("torch")
    file_name: str | None = added(None)  # the ONNX file; None: model.onnx, or the only one

    def __post_init__(self) -> None:
        check_positive(self, "max_length")
        if self.file_name is not None and self.backend != "onnx":
            raise UsageError(f"file_name={self.file_name} goes with backend=onnx.")

    @property
    def backbone(self) -> str:
        return self.model


@register_method("pretrained")
class Pretrained(BackboneEncoder[PretrainedRecipe]):
    """A finished encoder: a sentence-transformers model, or a plain checkpoint and the pooling of the recipe.

    The sentence-transformers library loads a folder with modules.json, without its code. The engine runs the
    transformer and the pooling if it gives the library's vectors of 64 texts; else the library encodes (`run_by`).

    Examples:
        >>> from zoo import Runtime
        >>> Pretrained(Pretrained.Recipe(model="zoo-small", pooling="mean"), Runtime()).encode(["a small dog"]).shape
        (1, 384)
    """

    def __init__(self, recipe: PretrainedRecipe, runtime: Runtime, source: BackboneSource | None = None) -> None:
        Encoder.__init__(self, recipe, runtime)
        self.source = source or _located(recipe, runtime)
        self.stats, self.trained = EncodingStats(), False
        self.library: SentenceTransformer | None = None
        self.after: list[Module] = []
        self.longest = recipe.max_length
        self.prefix: Prefix | None = None
        self.roles = Roles().replaced(recipe.prompt, recipe.query_prompt, recipe.document_prompt)
        self.onnx = onnx_file(self.source.folder, recipe.file_name) if recipe.backend == "onnx" else None
        if is_file(self.source.folder / "modules.json") or (self.onnx and recipe.pooling in ("cls", "mean", "max")):
            self._load()
            return
        if recipe.pooling is None or self.onnx:
            rest = (
                f" if `hf download {recipe.model}` fetches none"
                if self.source.folder.parent.name == "snapshots"
                else ""
            )
            raise UsageError(
                f"pretrained: {recipe.model!r} has no modules.json, which states the pooling."
                f" Name it{rest}: pretrained:model={recipe.model}:pooling=mean (or cls, of an encoder"
                " that was trained for it)."
            )
        self.own_pooling: Pooling = "cls" if recipe.pooling == "pooler" else recipe.pooling
        self.backbone = Backbone.from_source(self.source, runtime)
        self.dim = self.backbone.dim
        note = pooled_elsewhere(self.source.folder, self.backbone.tokenizer)
        self.roles = replace(self.roles, note=note)
        self.prefix = released_prefix(self.backbone, allow_pickle=runtime.allow_pickle)
        if self.prefix is not None and self.own_pooling != "cls":
            raise UsageError(
                f"pretrained: {recipe.model!r} has a prefix (PromCSE): name pooling=cls or pooling=pooler."
            )
        if recipe.pooling == "pooler":
            self.after = [trained_pooler(self.source, runtime).to(runtime.device)]

    def _load(self) -> None:
        """Load a sentence-transformers model; the engine takes over if both agree."""
        recipe, runtime = self.recipe, self.runtime
        if recipe.pooling not in (None, "cls", "mean", "max"):
            raise UsageError(
                f"pretrained: {recipe.model!r} has a modules.json, which states the pooling; leave out the pooling."
            )
        self.library = load_finished(self.source, runtime, recipe.pooling, recipe.max_length, self.onnx)
        padding = padded_right(self.library)
        of_recipe = recipe.prompt, recipe.query_prompt, recipe.document_prompt
        roles = roles_of(self.library).replaced(*of_recipe)
        self.roles = noted(f"pretrained: {recipe.model!r}", self.library, roles)
        self.roles = replace(self.roles, note="; ".join(filter(None, [self.roles.note, padding])))
        parts = taken_over(self.library, self.source) if self.onnx is None else None
        if parts is None:
            self.runtime = runtime if self.onnx is None else replace(runtime, device="cpu", precision="fp32")
            self.dim, self.stats = self._by_library(["a"]).shape[1], EncodingStats()
            return
        library, limit = self.library, min(self.library.max_seq_length or _UNLIMITED, _UNLIMITED)
        texts = sample(limit)
        self.runtime = replace(runtime, precision="fp32")
        prompts = [self.roles.default, self.roles.prompt("query"), self.roles.prompt("document")]
        tried = dict.fromkeys(["", *prompts])
        some = {prompt: texts[:8] if prompt else texts for prompt in tried}
        wanted = {prompt: self._by_library(some[prompt], prompt) for prompt in tried}
        self.dim = wanted[""].shape[1]
        self.backbone, self.own_pooling, self.after = parts
        self.longest, self.library = limit, None
        model: Any = self.backbone.model
        pooler = getattr(model, "pooler", None)
        if without_pooler(type(model)):
            model.pooler = None
        try:
            agrees = all(deviation(self.encode(some[p], prompt=p), wanted[p]) <= AGREES for p in tried)
        except Exception:
            # The engine meets any architecture of the library; what it cannot run, the library runs.
            agrees = False
        if not agrees:
            self.library, self.after = library, []
            if pooler is not None:
                model.pooler = pooler
        self.runtime, self.stats = runtime, EncodingStats()

    @property
    def pooling(self) -> Pooling:
        return self.own_pooling

    @property
    def pooled_dim(self) -> int:
        return self.backbone.dim

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Pooled states (n, dim) float32, with a checkpoint's own prefix."""
        if self.prefix is None:
            return super().forward(input_ids, attention_mask)
        pooler = PrefixPooler(self.backbone.model, self.prefix, torch.nn.Identity())
        vectors: torch.Tensor = pooler(input_ids, attention_mask)
        return vectors.float()

    def parts(self) -> dict[str, torch.nn.Module]:
        return {} if self.prefix is None else {"prefix": self.prefix}

    def encode(self, texts: Sequence[str], prompt: str | None = None, role: Role | None = None) -> Vectors:
        texts = [clean_text(text, i) for i, text in enumerate(texts)]
        prompt = self.roles.prompt(role) if prompt is None else prompt
        if self.library is not None:
            return encode_unique(texts, functools.partial(self._by_library, prompt=prompt, role=role))
        vectors = torch.from_numpy(self.pooled([prompt + text for text in texts]))
        with torch.inference_mode(), all_rows_alike(torch.device(self.runtime.device)):
            for module in self.after:
                vectors = module({"sentence_embedding": vectors.to(self.runtime.device)})["sentence_embedding"]
        return vectors.cpu().numpy()

    def encode_query(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="query", **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="document", **options)

    @property
    def one_by_one(self) -> bool:
        network = None if self.library is None else getattr(self.library[0], "model", None)
        return isinstance(network, OnnxModel) and network.alone

    def facts(self) -> dict[str, Any]:
        name = "sentence-transformers" if self.onnx is None else f"onnxruntime, {self.onnx.name}"
        name += ALONE if self.one_by_one else ""
        by = {} if self.library is None else {"run_by": name}
        return {**by, **self.roles.facts()}

    @classmethod
    def sources(cls, recipe: PretrainedRecipe, runtime: Runtime) -> dict[str, Any]:
        return {"backbone": _located(recipe, runtime).identity()}

    @classmethod
    def traits(cls, recipe: PretrainedRecipe) -> Traits:
        if recipe.backend == "onnx":
            return Traits(released=True, precision="fp32")
        exports = recipe.pooling in (None, "pooler", *EXPORTED_POOLINGS)
        return Traits(released=True, fine_tunes=True, exports=exports)

    def token_table(self, texts: list[str]) -> TokenTable:
        """Raises MissingError if the library encodes."""
        if self.library is not None:
            raise MissingError(f"pretrained: sentence-transformers runs {self.recipe.model!r}: it is not fine-tuned.")
        return super().token_table(texts)

    def stock_modules(self) -> StockModules:
        if self.library is not None:
            raise UsageError(
                f"pretrained: sentence-transformers itself runs {self.recipe.model!r}; it is not exported."
            )
        if self.prefix is not None:
            raise UsageError(f"pretrained: {self.recipe.model!r} has a prefix, for which the library has no module.")
        return replace(super().stock_modules(), after=self.after)

    def _by_library(self, texts: list[str], prompt: str = "", role: Role | None = None) -> Vectors:
        assert self.library is not None
        library = self.library
        # The methods of roles also choose the tower of a model that has two.
        encode: Any = getattr(library, f"encode_{role}" if role else "encode")
        started = time.perf_counter()
        size = {"batch_size": 1} if self.one_by_one else {}
        with autocast(self.runtime):
            vectors = (
                encode(texts, prompt=prompt, show_progress_bar=False, **size) if texts else np.empty((0, self.dim))
            )
        self.stats.texts += len(texts)
        self.stats.add_truncated(cut_texts(library, [prompt + text for text in texts]))
        self.stats.seconds += time.perf_counter() - started
        return np.asarray(vectors, np.float32)

    @property
    def length_limit(self) -> int:
        """The recipe's, folder's or tokenizer's limit, at most the positions."""
        positions = positions_of(self.backbone.model) or _UNLIMITED
        taken = 0 if self.prefix is None else self.prefix.length
        return min(self.longest or self.backbone.max_length, positions - taken)

    def parameters(self) -> int:
        if self.library is not None:
            outlines = [part.outline[0] for part in self.library.modules() if isinstance(part, OnnxModel)]
            return count_parameters(self.library, *outlines)
        return count_parameters(self.backbone.model, *self.parts().values(), *self.after)

    def save(self, folder: Path) -> None:
        write_json(folder / "recipe.json", dataclasses.asdict(self.recipe))
        write_json(folder / "backbone.json", {**self.source.identity(), "location": self.source.location})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        runtime = runtime or Runtime()
        recipe: PretrainedRecipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        saved = read_json(folder / "backbone.json")
        source = _located(replace(recipe, model=saved["location"], revision=saved["revision"]), runtime)
        if source.sha256 != saved["sha256"]:
            raise CorruptError(f"model {saved['name']!r} in {source.folder} is not the one {folder} was made with.")
        return cls(recipe, runtime, source)

    def fingerprint(self) -> str:
        if self.library is None:
            return super().fingerprint()
        recipe = {**dataclasses.asdict(self.recipe), "model": self.source.name}
        return sha256_json([self.source.sha256, recipe, self.runtime.precision])


def _located(recipe: PretrainedRecipe, runtime: Runtime) -> BackboneSource:
    onnx = None if recipe.backend == "torch" else recipe.file_name or ""
    source = find_backbone(recipe.model, recipe.revision, allow_pickle=runtime.allow_pickle, onnx=onnx)
    if onnx is None:
        return source
    digests = onnx_digests(onnx_file(source.folder, recipe.file_name))
    return replace(source, sha256=sha256_json([source.sha256, digests]))
