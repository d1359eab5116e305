"""The encoders of `choose`, with the wordings of their prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmark.data.corpora import load_corpus, target_corpus
from benchmark.data.sources import DataSource
from benchmark.run.objects import ObjectEncoder, free_name, listed, row_of
from benchmark.run.rows import check_name, resolve_methods
from choose.data import Texts
from zoo.api import load
from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.formats.finished import Backend
from zoo.formats.onnx import onnx_parts
from zoo.methods.pretrained import Pretrained
from zoo.progress import Progress
from zoo.recipes import all_recipes
from zoo.roles import Role, Roles
from zoo.selection import parse_methods, saved_named

UNTRAINED = ("static-freq-sub-case-pun", "avg-last", "bag-of-words")
OWN_TEXTS = "own"
_PLACEHOLDER = re.compile(r"\{(query|document|text|passage|sentence)?\}$")


@dataclass(frozen=True)
class Candidate:
    encoder: Encoder
    finished: bool
    trained_on: str = ""
    # Its vectors depend on a seed, of which there is one.
    one_training: bool = False

    @property
    def weights_mb(self) -> float:
        """The MB of its weights as float32, or of its ONNX file; NaN for a function."""
        if isinstance(self.encoder, Pretrained) and self.encoder.onnx is not None:
            return sum(path.stat().st_size for path in onnx_parts(self.encoder.onnx)) / 2**20
        unknown = isinstance(self.encoder, ObjectEncoder | Pretrained) and not self.encoder.parameters()
        return np.nan if unknown else self.encoder.parameters() * 4 / 2**20

    @property
    def takes_prompts(self) -> bool:
        of_library = isinstance(self.encoder, ObjectEncoder) and self.encoder.recipe.kind == "sentence-transformers"
        return of_library or isinstance(self.encoder, Pretrained)


@dataclass(frozen=True)
class Wording:
    """Prompts by role (None: every text); an empty wording means the encoder's card."""

    name: str
    prompts: Mapping[Role | None, str]

    def prompt(self, role: Role | None) -> str | None:
        return self.prompts.get(role, self.prompts.get(None))

    def roles(self, of_card: Roles) -> Roles:
        if not self.prompts:
            return of_card
        stated = replace(of_card, stated_by=self.name)
        words = {role: self.prompt(role) for role in ("query", "document")}
        prompts = {**of_card.prompts, **{role: text for role, text in words.items() if text is not None}}
        return replace(stated, prompts=prompts, default=self.prompts.get(None, of_card.default))


CARD = Wording("card", {})
_NONE = Wording("none", {None: "", "query": "", "document": ""})


def read_wordings(given: Sequence[str | Path]) -> list[Wording]:
    """Return the wordings of `none`, `card`, and YAML or JSON files {name: {query: ..., document: ..., prompt: ...}}.

    Raises UsageError for a file without wordings, and for a repeated name.
    """
    wordings: list[Wording] = []
    for path in given:
        known = {"none": _NONE, "card": CARD}.get(str(path))
        wordings += [known] if known is not None else _of_file(Path(path))
    names = [wording.name for wording in wordings]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"--prompts names {twice[0]!r} twice.")
    return wordings or [CARD]


def _of_file(path: Path) -> list[Wording]:
    if not path.is_file():
        raise MissingError(f"--prompts {path}: give none, card, or a file of wordings; there is no such file.")
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CorruptError(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())[:200]}.") from error
    roles: dict[str, Role | None] = {"query": "query", "document": "document", "prompt": None}
    wordings = []
    named: dict[Any, Any] = content if isinstance(content, dict) and content else {"": None}
    for name, prompts in named.items():
        given: dict[Any, Any] = prompts if isinstance(prompts, dict) else {}
        if not given or not {*given} <= {*roles} or not all(isinstance(text, str) for text in given.values()):
            raise UsageError(
                f"{path}: a wording is NAME: {{query: TEXT, document: TEXT}}, or {{prompt: TEXT}} for every text"
                f" ({name or 'there is none'})."
            )
        for role, text in given.items():
            # A placeholder at the end is where the text stands anyway.
            given[role] = _PLACEHOLDER.sub("", text)
            if re.search(r"\{\w*\}", given[role]):
                raise UsageError(f"{path}: {name} has a placeholder in {text!r}; a wording stands before the text.")
        wordings.append(Wording(str(name), {roles[role]: text for role, text in given.items()}))
    return wordings


def vectors_of(encoder: Encoder, data: Texts, wording: Wording) -> NDArray[Any]:
    """Return (texts, dim): queries and documents in their roles, other texts without a role."""
    if not data.queries:
        return np.asarray(encode(encoder, data.texts, wording, None))
    asked, answers = data.texts[: data.queries], data.texts[data.queries :]
    return np.concatenate([encode(encoder, asked, wording, "query"), encode(encoder, answers, wording, "document")])


def encode(encoder: Encoder, texts: Sequence[str], wording: Wording, role: Role | None) -> NDArray[Any]:
    by = {"query": encoder.encode_query, "document": encoder.encode_document}.get(role or "", encoder.encode)
    prompt = wording.prompt(role)
    return by(texts) if prompt is None else by(texts, prompt=prompt)


def installed() -> list[str]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        models = [repo for repo in scan_cache_dir().repos if repo.repo_type == "model"]
    except CacheNotFound:
        return []
    return sorted(m.repo_id for m in models if any(f.file_name == "modules.json" for r in m.revisions for f in r.files))


def candidates(encoders: object, baseline: str | None = None) -> list[tuple[str, object]]:
    """Return the given encoders, else the finished in the hub's cache and some untrained."""
    given: object = [*installed(), *UNTRAINED] if encoders is None else encoders
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    pairs = [(_named(called, encoder), encoder) for called, encoder in listed(given, None)]
    if baseline is not None and baseline not in [name for name, _ in pairs]:
        pairs.append((baseline, baseline))
    names = [name for name, _ in pairs]
    folders = [Path(given).resolve() for _, given in pairs if isinstance(given, str | Path) and Path(given).is_dir()]
    if same := [folder for folder in folders if folders.count(folder) > 1]:
        raise UsageError(f"{same[0]} is named twice among the encoders; name it once.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two encoders are called {twice[0]!r}; give a dict: {{'one name': ..., 'another': ...}}.")
    return pairs


def _named(called: str | None, encoder: object) -> str:
    """Return the caller's name of an encoder, or its own; raises UsageError for the name of another recipe."""
    text = str(encoder) if isinstance(encoder, str | Path) else ""
    if called is None:
        if isinstance(encoder, Path):
            return free_name(text, "saved")
        return text or free_name(type(encoder).__name__, "object")
    check_name(called, all_recipes(), text)
    return called


def prepared(
    name: str, given: object, runtime: Runtime, texts: Sequence[str], corpus: str | None, backend: Backend
) -> Candidate:
    quiet = replace(runtime, progress=Progress.silent())
    is_path = isinstance(given, str | Path)
    if isinstance(given, str | Path) and saved_named(given):
        return Candidate(load(str(given), quiet), finished=True)
    if backend != "torch" and is_path and (Path(str(given)).is_dir() or "/" in str(given)):
        given = f"pretrained:model='{given}':backend={backend}"
    named = parse_methods(str(given), all_recipes()) if is_path else []
    rows = resolve_methods(named, {}) or [row_of(given, name, quiet, texts[:64])]
    row = rows[0]
    if len(rows) > 1 or row.traits.needs_pairs:
        raise UsageError("it names several recipes, or one that learns from labelled pairs; name a trained folder.")
    encoder, trained_on = row.encoder(quiet), ""
    if row.traits.needs_corpus:
        text = _text(corpus, texts)
        trained_on = f"trained on {len(text.sentences):,} sentences of {text.name}"
        runtime.progress.say(f"{row.name} is {trained_on}")
        encoder.fit(row.cls.reads(row.recipe, text), run=Run())
    if row.traits.transductive:
        encoder = encoder.adapt(texts)
    return Candidate(encoder, row.traits.released or row.given is not None, trained_on, row.trained)


def _text(corpus: str | None, texts: Sequence[str]) -> Corpus:
    if corpus == OWN_TEXTS:
        return replace(target_corpus(texts, None), name="the table itself")
    text = load_corpus(corpus or "pocket-text", DataSource.from_options(None), None)
    return text if corpus else replace(text, name="the bundled text")
