"""Small encoders without a network, for tests of the machinery; and a record built by hand."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from benchmark.run.options import RunOptions
from benchmark.run.plan import Planner, Request, TrainingTexts
from benchmark.run.plan import Run as PlannedRun
from benchmark.run.rows import resolve_methods
from benchmark.tasks.loaded import LoadedTask
from zoo.check import SENTENCES
from zoo.encoder import Corpus, DevScore, Encoder, FitReport, Run, Runtime, Traits
from zoo.errors import CorruptError
from zoo.files import read_json, sha256_json, write_json
from zoo.recipes import RecipeSpec
from zoo.selection import split_overrides

# Methods whose backbone is a decoder.
DECODERS = ("causal", "eol", "llm2vec", "adapted-simcse", "adapted-angle")


def skip_where_the_library_refuses_peft() -> None:
    """transformers 5.24 asks for peft 0.22, which was not released when it was."""
    from transformers.integrations.peft import MIN_PEFT_VERSION
    from transformers.utils import check_peft_version

    try:
        check_peft_version(MIN_PEFT_VERSION)
    except ValueError as error:
        pytest.skip(str(error))


@dataclass
class Answer:
    code: int
    out: str
    err: str


Cli = Callable[..., Answer]
FITTED: list[str] = []  # the names of the encoders that were fitted, in order, in this process


@dataclass(frozen=True, kw_only=True)
class BagRecipe:
    """Width of the vectors, and a salt for the hash."""

    width: int = 64
    salt: int = 0


class Bag(Encoder):
    """Hashed bag of words; the same text gives the same vector everywhere and always."""

    Recipe: ClassVar[type] = BagRecipe

    def __init__(self, recipe: BagRecipe, runtime: Runtime) -> None:
        super().__init__(recipe, runtime)
        self.dim = recipe.width
        self.shift = np.zeros(recipe.width)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in ["<s>", *text.lower().split()]:
                code = zlib.crc32(f"{self.recipe.salt} {word}".encode("utf-8", "surrogatepass"))
                vectors[row, code % self.dim] += 1.0 if code >> 16 & 1 else -1.0
            vectors[row, 0] += 1.0 + len(text) % 7 / 100
        return vectors + self.shift.astype(np.float32)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "bag.json", {"recipe": asdict(self.recipe), "shift": self.shift.tolist()})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Bag:
        content = read_json(folder / "bag.json")
        if len(content["shift"]) != content["recipe"]["width"]:
            raise CorruptError(f"{folder} is damaged")
        encoder = cls(cls.Recipe(**content["recipe"]), runtime or Runtime())
        encoder.shift = np.array(content["shift"])
        return encoder

    def fingerprint(self) -> str:
        return sha256_json([type(self).__qualname__, asdict(self.recipe), self.shift.tolist()])


class Fitted(Bag):
    """Learns a shift that depends on the corpus and on the seed."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(needs_corpus=True, stochastic=True)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        assert corpus is not None
        FITTED.append(type(self).__name__)
        self.shift = np.random.default_rng([run.seed, len(corpus.sentences)]).normal(0, 0.2, self.dim)
        return FitReport(fitted=True, steps=1, sentences=len(corpus.sentences), seconds=0.01)


class Picking(Fitted):
    """Asks for the dev score while it learns."""

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(needs_corpus=True, stochastic=True, picks_checkpoint=True)


class CrashInFit(Fitted):
    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        raise RuntimeError("the optimiser exploded")


class CrashWithSurrogate(Bag):
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        raise RuntimeError("cannot read 'caf\udce9'")


class SomeNaN(Bag):
    """NaN for some texts, three of the probe's sentences among them."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = super().encode(texts)
        for row, text in enumerate(texts):
            if "zebra" in text or text.startswith(("A ", "Two ")):
                vectors[row, 1] = np.nan
        return vectors


class NaNLater(Bag):
    """Passes the probe and gives NaN for texts of the task only."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = super().encode(texts)
        if len(texts) > 8:
            vectors[3:5] = np.nan
        return vectors


class Constant(Bag):
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), self.dim), np.float32)


class WrongShape(Bag):
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode(texts)[:, : self.dim // 2]


class WrongType(Bag):
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode(texts).astype(np.float64)


class ReturnsList(Bag):
    def encode(self, texts: Sequence[str]) -> Any:
        return super().encode(texts).tolist()


class Shuffling(Bag):
    """Returns the vectors sorted, not in the order of the texts."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode(sorted(texts))


class BatchDependent(Bag):
    """Each vector depends on its left neighbour."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = super().encode(texts)
        return vectors + np.roll(vectors, 1, axis=0)


FAKES: dict[str, type[Encoder]] = {
    "bag": Bag,
    "fitted": Fitted,
    "picking": Picking,
    "crash-in-fit": CrashInFit,
    "crash-surrogate": CrashWithSurrogate,
    "some-nan": SomeNaN,
    "nan-later": NaNLater,
    "constant": Constant,
    "wrong-shape": WrongShape,
    "wrong-type": WrongType,
    "returns-list": ReturnsList,
    "shuffling": Shuffling,
    "batch-dependent": BatchDependent,
}


def hexes(*parts: Any) -> str:
    return sha256_json([str(part) for part in parts])


def make_record(name: str = "bag", task: str = "pocket-pairs", seed: int | None = None, **changes: Any) -> Any:
    """Return a valid record; `main` and any top-level key can be given, `row` tells rows apart."""
    main = changes.pop("main", 0.5)
    row = changes.pop("row", "row")
    sha256 = changes.pop("data_sha256", hexes(task))
    row_key = hexes(name, row)
    recipe, overrides = split_overrides(name, "row")
    record = {
        "schema": 1,
        "protocol": 1,
        "key": hexes(name, row, task, seed, sha256),
        "encoder_key": hexes(name, row, seed),
        "row_key": row_key,
        "status": "ok",
        "reason": None,
        "method": {
            "name": name,
            "version": 1,
            "recipe_name": recipe,
            "overrides": overrides,
            "class": "fakes.Bag",
            "recipe": {"width": 64},
            "sources": {"backbone": {"name": "tiny", "revision": None, "sha256": hexes("tiny")}},
            "traits": {"needs_corpus": False, "stochastic": seed is not None, "transductive": False},
        },
        "task": {
            "name": task,
            "version": 1,
            "dataset": task,
            "form": "plain",
            "source": "bundled",
            "sha256": sha256,
            "rows": 280,
        },
        "seed": seed,
        "precision": "fp32",
        "limit": None,
        "scores": {"main": main, "main_metric": "all_spearman", "reason": None},
        "training": None,
        "encoding": None,
        "facts": {},
        "environment": {
            "python": "3.11.0",
            "platform": "Linux x86_64",
            "cpu": "a cpu",
            "threads": 2,
            "gpu": None,
            "cuda": None,
            "packages": {"torch": "2.10.0", "transformers": "5.0.0"},
        },
        "started": "2026-01-02T03:04:05Z",
        "seconds": 0.5,
        "version": "0.1.0",
        "command": ["zoo-bench", "run", "--methods", name],
    }
    record.update(changes)
    return json.loads(json.dumps(record))


def failed(record: Any, reason: str, status: str = "failed") -> Any:
    return {**record, "status": status, "reason": reason, "scores": None}


def fixed_bert(folder: Path) -> Path:
    """A BERT of two layers, 32 wide, whose weights are a plain formula: no random generator decides them."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    models = Path(__file__).parents[1] / "zoo" / "models" / "zoo-mini"
    config = BertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for number, (name, tensor) in enumerate(sorted(model.named_parameters())):
            places = torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
            wave = torch.sin(places * (0.37 + 0.11 * number) + number).to(tensor.dtype)
            tensor.copy_(1 + 0.1 * wave if "LayerNorm.weight" in name else (0.6 if tensor.dim() > 1 else 0.1) * wave)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(models / name, folder)
    words = sorted({word.strip(".,?").lower() for text in (*SENTENCES, *sentences()) for word in text.split()} - {""})
    lines = [f"{w} " + " ".join(f"{np.sin(7.3 * i + 1.7 * j):.4f}" for j in range(8)) for i, w in enumerate(words)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{text}\t{np.sin(i):.4f} {np.cos(i):.4f}\n" for i, text in enumerate(SENTENCES)]
    (folder / "texts.tsv").write_text("".join(rows), encoding="utf-8")
    return folder


def sentences() -> list[str]:
    """160 sentences that differ in their words and lengths: ten steps of 16."""
    words = "river stone lamp garden winter train letter bridge market apple dog cat".split()
    every = [
        f"The {a} is near the {b}" + " in the old town" * (i % 3) + "." for i, a in enumerate(words) for b in words
    ]
    return every + [text.replace("near", "not near") for text in every[:16]]


def planned_run(
    options: RunOptions,
    specs: list[RecipeSpec],
    tasks: Sequence[LoadedTask],
    *,
    runtime: Runtime | None = None,
    dev: LoadedTask | None = None,
    texts: Mapping[str, TrainingTexts] | None = None,
    seeds: Sequence[int] = (0,),
    defaults: Mapping[str, Any] | None = None,
) -> PlannedRun:
    """Return a run of some recipes on tasks that are read already."""
    runtime, texts = runtime or Runtime(), texts or {}
    rows = resolve_methods(specs, defaults or {})
    encoders = Planner(runtime, tasks, dev, texts, options.limit).encoders(rows, seeds)
    return PlannedRun(Request(options), runtime, (), tuple(tasks), dev, texts, encoders)
