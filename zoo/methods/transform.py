"""Base class of whitening and flow."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import NLI_LABELS, Corpus, DevScore, Encoder, FitReport, Run, Runtime, Start, Traits, Vectors
from zoo.engine.backbone import Backbone
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.files import read_json, sha256_json, write_json
from zoo.methods.base import without_places
from zoo.methods.pooled import Average, AverageRecipe
from zoo.plugins import METHODS, method_identity
from zoo.recipes import added, added_at_default, all_recipes, build, portable_recipe
from zoo.roles import Role
from zoo.selection import parse_methods

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class TransformRecipe(AverageRecipe):
    """The base encoder and the texts of the fit; without `base`, the average of `layers`."""

    # A recipe, or name:key=value; `backbone` and `revision` are passed to it.
    base: str | None = added(None)
    fit_on: Literal["corpus", "pairs", "target"] = "corpus"
    max_length: int | None = 64

    @staticmethod
    def without_effect(given: Mapping[str, object]) -> str | None:
        """A message for a base beside a key of the average, even at its default."""
        for name in ("layers", "max_length"):
            if given.get("base") is not None and name in given:
                return f"{name} is for the plain average; the base {given['base']!r} has its own settings"
        return None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base is None:
            return
        changed = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        if problem := self.without_effect(changed):
            raise ValueError(problem)
        _, cls, recipe = base_of(self)
        traits = cls.traits(recipe)
        if traits.transductive and self.fit_on != "target":
            raise ValueError(f"the base {self.base!r} is fitted on each task's texts, so fit_on must be target")
        if traits.needs_corpus and self.fit_on == "pairs":
            raise ValueError(f"the base {self.base!r} is trained on the corpus, so fit_on must be corpus or target")


def base_of(recipe: TransformRecipe) -> tuple[str, type[Encoder], Any]:
    if recipe.base is None:
        return "avg", Average, AverageRecipe(**{f.name: getattr(recipe, f.name) for f in fields(AverageRecipe)})
    specs = parse_methods(recipe.base, all_recipes())
    if len(specs) != 1 or specs[0].parameters.get("base") == recipe.base:
        raise UsageError(f"base {recipe.base!r} must name one other method.")
    cls, base_recipe = specs[0].resolve(
        {"backbone": recipe.backbone, "model": recipe.backbone, "revision": recipe.revision}
    )
    return specs[0].method, cls, base_recipe


TransformRecipeT = TypeVar("TransformRecipeT", bound=TransformRecipe, default=Any)


def _not_zero(vectors: Vectors) -> Vectors:
    """Non-zero vectors: zero stands for a text without a known word."""
    known = vectors.any(axis=1)
    return vectors if known.all() else vectors[known]


class Transform(Encoder[TransformRecipeT]):
    Recipe: ClassVar[type[Any]] = TransformRecipe
    version = 2
    unstated = ("sources", "parameters")
    stochastic = False

    def __init__(self, recipe: TransformRecipeT, runtime: Runtime, base: Encoder | None = None) -> None:
        super().__init__(recipe, runtime)
        if base is None:
            _, cls, base_recipe = base_of(recipe)
            base = cls(base_recipe, runtime)
        self.base = base
        self.dim = base.dim
        self.roles = replace(base.roles, similarity="cosine")
        self.seed = 0

    @abstractmethod
    def learn(self, vectors: Vectors, run: Run) -> FitReport:
        """Fit the map to vectors (n, base dim); assign new state: copies share the old."""

    @abstractmethod
    def transform(self, vectors: Vectors) -> Vectors: ...

    @property
    def backbone(self) -> Backbone:
        backbone: Backbone = self.base.backbone  # type: ignore[attr-defined]
        return backbone

    @classmethod
    def traits(cls, recipe: TransformRecipeT) -> Traits:
        """Needs of base and map; an encoder gets a corpus or pairs, so pairs replace a corpus."""
        _, base_cls, base_recipe = base_of(recipe)
        base = base_cls.traits(base_recipe)
        needs_pairs = base.needs_pairs or recipe.fit_on == "pairs"
        return Traits(
            needs_corpus=not needs_pairs and (base.needs_corpus or recipe.fit_on == "corpus"),
            needs_pairs=needs_pairs,
            stochastic=base.stochastic or cls.stochastic,
            transductive=recipe.fit_on == "target",
            picks_checkpoint=base.picks_checkpoint,
            training_passes=base.training_passes,
            ignores_labels=not base.supervised,
        )

    @classmethod
    def start(cls, recipe: TransformRecipeT) -> Start | None:
        method, base_cls, base_recipe = base_of(recipe)
        return base_cls.start(base_recipe) or Start(method, base_recipe)

    @classmethod
    def reads(cls, recipe: TransformRecipeT, corpus: Corpus) -> Corpus:
        nli = corpus.labelled(NLI_LABELS)
        if recipe.fit_on != "pairs" or nli is corpus:
            return corpus
        if recipe.base is None:
            return replace(nli, name=f"NLI pairs of {corpus.name}")
        return replace(corpus, name=f"{corpus.name} (the map: its NLI pairs)")

    @classmethod
    def sources(cls, recipe: TransformRecipeT, runtime: Runtime) -> dict[str, Any]:
        method, base_cls, base_recipe = base_of(recipe)
        sources = base_cls.sources(base_recipe, runtime)
        if recipe.base is None:
            return sources
        # A field that was added since changes nothing at its default, as in keys.
        left_out = added_at_default(base_recipe)
        named = {name: value for name, value in portable_recipe(base_recipe, sources).items() if name not in left_out}
        base = {"recipe": named, "code": method_identity(base_cls), "base": sources.get("base")}
        return {**sources, "base": {"method": method, **base}}

    def encode(self, texts: Sequence[str], role: Role | None = None, **options: Any) -> Vectors:
        by = {"query": self.base.encode_query, "document": self.base.encode_document}.get(role or "", self.base.encode)
        vectors = by(texts, **options)
        mapped = self.transform(vectors)
        mapped[~vectors.any(axis=1)] = 0
        return mapped

    def encode_query(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="query", **options)

    def encode_document(self, texts: Sequence[str], **options: Any) -> Vectors:
        return self.encode(texts, role="document", **options)

    def covers(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return self.base.covers(texts)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Fit the base (to its best checkpoint), then the map; with `fit_on: target` only the base."""
        self.seed = run.seed
        folder = None if run.folder is None else run.folder / "base"
        report = self.base.fit(corpus, dev_score=dev_score, run=replace(run, folder=folder))
        if self.recipe.fit_on == "target":
            return report
        what = type(self).__name__.lower()
        if corpus is None:
            raise ContractError(f"{what} with fit_on: {self.recipe.fit_on} needs sentences; pass --corpus or --pairs.")
        if self.recipe.fit_on == "pairs" and corpus.labels is None:
            raise ContractError(f"{what} with fit_on: pairs needs labelled pairs (NLI); pass --pairs.")
        if self.recipe.fit_on == "pairs" and not (corpus := corpus.labelled(NLI_LABELS)).sentences:
            raise TrainingError(f"no pair of {corpus.name} is labelled as NLI; {what} needs --pairs nli.")
        # log_values reports one training: the base's if it is trained.
        own_run = replace(run, log_values=None) if report.fitted else run
        learned = self.learn(_not_zero(self.base.encode(corpus.sentences)), own_run)
        if not report.fitted:
            return learned
        facts = {**report.facts, **learned.facts}
        return replace(report, seconds=round(report.seconds + learned.seconds, 3), facts=facts)

    def fitted_rank(self) -> int | None:
        return self.base.fitted_rank()

    def adapt(self, texts: Sequence[str]) -> Encoder:
        """With `fit_on: target`, a copy fitted on `texts` (both sides of all splits of a task)."""
        if self.recipe.fit_on != "target":
            return self
        fitted = copy.copy(self)
        fitted.base = self.base.adapt(texts)
        fitted.learn(_not_zero(fitted.base.encode(texts)), Run(seed=self.seed))
        return fitted

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.recipe.base is None:
            self.base.save(folder)
        else:
            self.base.save(folder / "base")
            write_json(folder / "base.json", {"method": base_of(self.recipe)[0]})
        write_json(folder / "recipe.json", asdict(self.recipe))

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        runtime = runtime or Runtime()
        recipe = build(cls.Recipe, read_json(folder / "recipe.json"), str(folder / "recipe.json"))
        if recipe.base is None:
            return cls(recipe, runtime, Average(base_of(recipe)[2], runtime, Backbone.restore(folder, runtime)))
        base = METHODS.get(read_json(folder / "base.json")["method"])
        return cls(recipe, runtime, base.load(folder / "base", runtime))

    def fingerprint(self) -> str:
        name = method_identity(type(self))
        return sha256_json([name, without_places(self.recipe), self.base.fingerprint()])

    def facts(self) -> dict[str, Any]:
        return self.roles.facts()

    def encoding_stats(self) -> dict[str, Any]:
        return self.base.encoding_stats()
