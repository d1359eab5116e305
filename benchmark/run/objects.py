"""Objects as encoders, instead of recipes: a zoo Encoder, a model of a library, an object with `encode`, a function.

An object is known by its vectors, and by its fingerprint or files where it has them. It is measured in every run,
because nothing says whether the next object of its name is the same; a `version` that the caller gives says so.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from benchmark.keys import vectors_digest
from benchmark.run.rows import Given, Named, Row, check_name, unstated
from zoo.api import load
from zoo.check import PROBES, TOLERANCE, deviation
from zoo.encoder import Encoder, Runtime, Traits, Vectors
from zoo.engine.backbone import encoder_of, positions_of
from zoo.engine.batching import EncodingStats
from zoo.engine.states import masked_mean
from zoo.errors import ContractError, UsageError, ZooError, error_text
from zoo.formats.finished import noted
from zoo.methods.base import count_parameters
from zoo.methods.pretrained import Pretrained
from zoo.paths import user_path
from zoo.plugins import method_identity
from zoo.recipes import all_recipes, taken
from zoo.roles import roles_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True)
class ObjectRecipe:
    """The recipe that records state for an object; none of its fields can be set."""

    # A registered method's name and version, "sentence-transformers" or "function".
    kind: str
    # None: it is known by its vectors alone.
    fingerprint: str | None = None
    version: str | None = None


class ObjectEncoder(Encoder[ObjectRecipe]):
    """A function of texts, or a model's own `encode`, as an encoder, which times it."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        kind: str,
        runtime: Runtime,
        parameters: int = 0,
        by_role: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__(ObjectRecipe(kind=kind), runtime)
        self.function, self.name, self.size, self.by_role = function, name, parameters, by_role or {}
        self.texts, self.seconds = 0, 0.0
        try:
            self.dim = int(self.encode(["a", "b"]).shape[1])
        except ZooError:
            raise
        except Exception as error:
            raise ContractError(
                f"{name}: two texts gave {error_text(error)}; give a function that takes a list of texts and returns an"
                " array (n, dim)."
            ) from error
        self.texts, self.seconds = 0, 0.0

    def encode(self, texts: Sequence[str], role: str | None = None, **options: Any) -> Vectors:
        """Return the function's vectors (n, dim); raises ContractError where it gives none, UsageError for bits."""
        started = time.perf_counter()
        result = self.by_role.get(role or "", self.function)(list(texts), **options)
        try:
            vectors = _array(result, self.name)
        except (TypeError, ValueError) as error:
            raise ContractError(
                f"{self.name}: {len(texts)} texts gave a {type(result).__name__} that is no array of numbers"
                f" ({error_text(error)}); return one vector per text, all of one length, (n, dim)."
            ) from error
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ContractError(
                f"{self.name}: {len(texts)} texts gave an array of shape {vectors.shape}; return one vector per text,"
                " (n, dim)."
            )
        self.texts, self.seconds = self.texts + len(texts), self.seconds + time.perf_counter() - started
        return vectors

    def encode_query(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="query", **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="document", **options)

    def encoding_stats(self) -> dict[str, object]:
        return {"texts": self.texts, "seconds": self.seconds}

    def parameters(self) -> int:
        """Return the model's number of parameters; 0 for a function."""
        return self.size

    def facts(self) -> dict[str, Any]:
        """Return the library that runs a model; nothing for a function."""
        return {} if self.recipe.kind == "function" else {"run_by": self.recipe.kind}

    def save(self, folder: Path) -> NoReturn:
        raise ContractError("a function is not saved; keep it yourself.")

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> NoReturn:
        raise ContractError("a function was not saved.")

    def fingerprint(self) -> str:
        """Return a digest of the vectors of a few texts."""
        return vectors_digest(self.encode, PROBES)


def _array(result: object, name: str) -> Vectors:
    """Return an array or tensor, or a list of them or of numbers, as float32; raises UsageError for quantised ones."""
    kind = str(getattr(next(iter(result), None) if isinstance(result, list | tuple) else result, "dtype", ""))
    if kind.removeprefix("torch.") in ("int8", "uint8"):
        raise UsageError(
            f"{name}: the vectors are {kind}: quantised or packed bits, whose cosine is not that of the vectors;"
            " return them as floats, unpacked."
        )
    if isinstance(result, list | tuple) and any(hasattr(part, "detach") for part in result):
        result = [part.detach().float().cpu().numpy() for part in result]
    return np.asarray(result.detach().float().cpu() if hasattr(result, "detach") else result, dtype=np.float32)


def _is(value: object, library: str, name: str) -> bool:
    """Return whether a value is of a library's class or a derived class; imports nothing."""
    return any(cls.__name__ == name and cls.__module__.startswith(library) for cls in type(value).__mro__)


def _with_tokenizer(given: object) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """Return the model and the tokenizer of a Hugging Face pipeline, or of a pair of both; None for anything else."""
    if _is(given, "transformers", "Pipeline"):
        return given.model, given.tokenizer  # type: ignore[attr-defined]
    if not isinstance(given, list | tuple) or len(given) != 2:
        return None
    first, second = given if _is(given[0], "transformers", "PreTrainedModel") else given[::-1]
    both = _is(first, "transformers", "PreTrainedModel") and _is(second, "transformers", "PreTrainedTokenizerBase")
    return (first, second) if both else None


def listed(encoder: object, name: str | None) -> list[tuple[str | None, object]]:
    """Return (name, encoder) for each of a list or dict of encoders, or for an encoder, whose name may be given."""
    several: list[tuple[str | None, object]]
    if isinstance(encoder, Mapping):
        several = [(str(called), value) for called, value in encoder.items()]
    elif isinstance(encoder, list | tuple) and _with_tokenizer(encoder) is None:
        several = [(None, value) for value in encoder]
    else:
        return [(name, encoder)]
    if name is not None or not several:
        raise UsageError("name is of one encoder; name several by a dict." if several else "no encoder is given.")
    return several


def _name_of(model: PreTrainedModel) -> str:
    return Path(str(model.name_or_path)).name or type(model).__name__


def _mean_pooled(model: Any, tokenizer: Any, texts: list[str]) -> NDArray[np.float32]:
    """Return the means (n, dim) of a Hugging Face model's last states over each text's tokens, 32 texts at a time."""
    import torch

    model = encoder_of(model)
    longest = min(tokenizer.model_max_length, positions_of(model) or 512)
    means = []
    with torch.inference_mode():
        for start in range(0, len(texts), 32):
            some = texts[start : start + 32]
            batch = tokenizer(some, padding=True, truncation=True, max_length=longest, return_tensors="pt")
            batch = batch.to(model.device)
            means.append(masked_mean(model(**batch).last_hidden_state, batch["attention_mask"]).cpu())
    return np.asarray(torch.cat(means))


def _of_library(
    model: Any, tokenizer: Any, name: str, runtime: Runtime, texts: Sequence[str], precision: str | None
) -> tuple[Encoder, dict[str, Any]]:
    """Return a library's model as an encoder, run by `pretrained` where both agree, and its files' identity."""
    import torch

    single = next((weights.dtype == torch.float32 for weights in model.parameters()), True)
    if precision == "fp32" and not single:
        raise UsageError(
            f"{name} has weights in half precision; convert it before (model.float()) to measure it in fp32."
        )
    runtime = replace(runtime, precision=precision or ("fp32" if single else "bf16"))
    half = single and runtime.precision != "fp32"
    source = name if tokenizer is None else f"{_name_of(model)}, mean pooling"
    files: dict[str, Any] = {} if tokenizer is None else {"backbone": {"name": source}}

    def encode(some: list[str], by: str = "encode", **options: Any) -> Any:
        narrow = torch.float16 if runtime.precision == "fp16" else torch.bfloat16
        with torch.autocast(model.device.type, narrow, enabled=half):
            if tokenizer is None:
                return getattr(model, by)(some, **options)
            return _mean_pooled(model, tokenizer, some)

    run_by = "sentence-transformers" if tokenizer is None else "transformers"
    by_role = {role: functools.partial(encode, by=f"encode_{role}") for role in ("query", "document")}
    library = ObjectEncoder(
        encode, name, run_by, runtime, count_parameters(model), by_role if tokenizer is None else None
    )
    library.roles = noted(name, model, roles_of(model)) if tokenizer is None else library.roles
    try:
        with tempfile.TemporaryDirectory() as folder:
            if tokenizer is None:
                model.save(folder)
            else:
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
            recipe = Pretrained.Recipe(model=folder, pooling=None if tokenizer is None else "mean")
            files = {"backbone": {**Pretrained.sources(recipe, runtime)["backbone"], "name": source}}
            engine = Pretrained(recipe, runtime)
        distinct = list(dict.fromkeys(texts))
        if distinct and engine.dim == library.dim:
            apart = deviation(engine.encode(distinct), library.encode(distinct))
            engine.stats = EncodingStats()
            return (engine if apart <= _AGREES[runtime.precision] else library), files
    except Exception as error:
        # The class cannot be saved, or not be read again.
        runtime.progress.say(f"{name} is run by its own code: {error_text(error)}")
    return library, files


# The largest difference of a value, relative to the vectors' length.
_AGREES = {**TOLERANCE, "fp32": 1e-4}


def rows_of(
    given: Sequence[Row | Named],
    runtime: Runtime,
    texts: Sequence[str],
    *,
    version: str | None,
    precision: str | None,
) -> list[Row]:
    """Return rows with saved encoders and objects loaded as rows too; raises UsageError for equal names."""
    rows: list[Row] = []
    for row in given:
        if isinstance(row, Row):
            rows.append(row)
            continue
        name, candidate = row
        if isinstance(candidate, str | Path):
            saved = load(candidate, runtime)
            called = name or free_name(user_path(candidate).resolve().name, "saved")
            rows.append(row_of(saved, called, runtime, texts, version=saved.fingerprint()))
        else:
            rows.append(row_of(candidate, name, runtime, texts, version=version, precision=precision))
    names = [row.name for row in rows]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two encoders are called {twice[0]!r}; give a dict: {{'one name': ..., 'another': ...}}.")
    return rows


def free_name(name: str, kind: str) -> str:
    """Return a name that nobody gave, with its kind behind it where it is a recipe's."""
    return f"{name} ({kind})" if taken(name, all_recipes()) else name


def check_mode(encoder: object) -> None:
    """Raise UsageError for a CrossEncoder, and for a torch module or its method in training mode."""
    module = getattr(encoder, "__self__", encoder)
    if _is(module, "sentence_transformers", "CrossEncoder"):
        raise UsageError("a CrossEncoder scores pairs of texts and has no vector of one; give a SentenceTransformer.")
    if getattr(module, "training", False) is True and callable(getattr(module, "eval", None)) and not _of_st(module):
        raise UsageError(
            f"{type(module).__name__} is in training mode, in which dropout changes its vectors; call .eval() first."
        )


def _unfitted(encoder: Encoder) -> bool:
    if not type(encoder).traits(encoder.recipe).learns:
        return False
    try:
        return type(encoder)(encoder.recipe, encoder.runtime).fingerprint() == encoder.fingerprint()
    except ZooError:
        # Its files are gone since, or it has no fingerprint before it is fitted.
        return False


def _of_st(value: object) -> bool:
    return _is(value, "sentence_transformers", "SentenceTransformer")


def row_of(
    encoder: object,
    name: str | None,
    runtime: Runtime,
    texts: Sequence[str],
    *,
    version: str | None = None,
    precision: str | None = None,
) -> Row:
    """Return an object as a row.

    It may be a zoo Encoder, a sentence-transformers model, a Hugging Face model with its tokenizer, an object with
    `encode`, or a function of texts. `texts` are a sample of those to encode; `precision` is the
    option's. Raises UsageError for anything else, and for a torch module in training mode.
    """
    given: Encoder
    files: dict[str, Any] = {}
    unstated_parts: tuple[str, ...] = ()
    fingerprint = None
    pair = _with_tokenizer(encoder)
    check_mode(encoder if pair is None else pair[0])
    if isinstance(encoder, Encoder):
        given, called, kind = encoder, type(encoder).__name__, method_identity(type(encoder), file=False)
        files, fingerprint = type(given).sources(given.recipe, given.runtime), given.fingerprint()
        unstated_parts = unstated(type(given), type(given).traits(given.recipe))
    elif pair is not None or _of_st(encoder):
        kind = "sentence-transformers" if pair is None else "transformers, mean pooling"
        if pair is None:
            called = getattr(getattr(encoder, "model_card_data", None), "model_name", None) or f"{kind} model"
        else:
            called = _name_of(pair[0])
        model, tokenizer = pair or (encoder, None)
        given, files = _of_library(model, tokenizer, name or called, runtime, texts, precision)
        unstated_parts = () if files else ("sources",)
    elif isinstance(encoder, type):
        raise UsageError(f"{encoder.__name__} is a class; give an object of it, or the name of its recipe.")
    elif _is(encoder, "transformers", "PreTrainedModel") or _is(encoder, "transformers", "PreTrainedTokenizerBase"):
        raise UsageError(
            f"{type(encoder).__name__} is one half of a Hugging Face encoder; give the model with its tokenizer:"
            " (model, tokenizer)."
        )
    elif callable(encode := getattr(encoder, "encode", encoder)):
        called, kind = getattr(encoder, "__name__", type(encoder).__name__), "function"
        by_role = {
            role: by for role in ("query", "document") if callable(by := getattr(encoder, f"encode_{role}", None))
        }
        given = ObjectEncoder(encode, name or called, kind, replace(runtime, precision="fp32"), by_role=by_role)
        unstated_parts = ("sources", "precision", "parameters")
    else:
        raise UsageError(
            f"{type(encoder).__name__} is no encoder; give a recipe's name, a zoo Encoder, a sentence-transformers"
            " model, a Hugging Face (model, tokenizer), an object with encode(texts), or a function that takes a list"
            " of texts and returns an array (n, dim)."
        )
    given_traits = type(given).traits(given.recipe)
    # It needs no training; a transductive encoder still reads a task's texts.
    traits = Traits(
        transductive=given_traits.transductive,
        needs_every_text=given_traits.needs_every_text,
        precision=given_traits.precision or given.runtime.precision,
    )
    recipe = ObjectRecipe(kind=kind, fingerprint=fingerprint, version=version)
    if name is None:
        name = free_name(called, "object")
    check_name(name, all_recipes())
    return Row(
        name,
        ObjectEncoder,
        recipe,
        traits,
        name,
        unstated=unstated_parts,
        given=Given(given, files, uncached=version is None, unfitted=_unfitted(given)),
    )
