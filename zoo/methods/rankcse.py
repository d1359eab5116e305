"""RankCSE (Liu et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F

from zoo.encoder import Corpus, DevScore, Encoder, FitReport, Run, Runtime, Traits
from zoo.errors import ContractError, UsageError, ZooError
from zoo.methods.base import check_positive
from zoo.methods.contrastive import ContrastiveRecipe, Rows
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.plugins import method_identity, register_method
from zoo.recipes import added, all_recipes, portable_recipe
from zoo.selection import parse_methods


@dataclass(frozen=True, kw_only=True)
class RankCSERecipe(ContrastiveRecipe):
    """Defaults of the community's code for BERT-base with ListMLE."""

    # Recipes, or name:key=value, of this backbone; trained first.
    teachers: tuple[str, ...] = ("diffcse", "simcse")
    # Of the first of two teachers; the second has the rest. The code: 0.33.
    teacher_weight: float = 1 / 3
    ranking: Literal["listmle", "listnet"] = "listmle"
    consistency_weight: float = 1.0
    ranking_weight: float = 1.0
    student_temperature: float = 0.05
    # tau_3, half of tau_2; only for ListNet, as ListMLE reads the order alone.
    teacher_temperature: float = 0.025
    ranking_epsilon: float = added(0.0)
    # The code: negative-entropy.
    divergence: Literal["js", "negative-entropy"] = "js"
    batch_size: int = 128
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "student_temperature", "teacher_temperature")
        if self.ranking_epsilon < 0:
            raise ValueError(f"ranking_epsilon must not be below 0, not {self.ranking_epsilon}")
        if not 1 <= len(self.teachers) <= 2 or not 0 <= self.teacher_weight <= 1:
            raise ValueError("teachers names one or two recipes, and teacher_weight is between 0 and 1")
        if self.consistency_weight < 0 or self.ranking_weight < 0:
            raise ValueError("consistency_weight and ranking_weight must not be below 0")


def disagreement(p: torch.Tensor, q: torch.Tensor, *, clamped: bool) -> torch.Tensor:
    """Mean Jensen-Shannon divergence of the rows of two matrices of probabilities (n, m) -> scalar.

    `clamped`: as in the community's code, log((p + q) / 2) is raised to 1e-7; there remains the mean of both negative
    entropies.
    """
    middle = ((p + q) / 2).log().clamp(min=1e-7) if clamped else ((p + q) / 2).log()
    return ((p * (p.log() - middle)).sum(-1) + (q * (q.log() - middle)).sum(-1)).mean() / 2


def list_mle(student: torch.Tensor, teacher: torch.Tensor, epsilon: float = 0.0) -> torch.Tensor:
    """Mean of -log of the Plackett-Luce probability that the student's logits (n, m) give the teacher's order.

    `epsilon`, as in the community's code, is added to a row's sums of exponentials, the largest being 1.
    """
    ordered = student.gather(1, teacher.argsort(1, descending=True))
    tails = ordered.flip(1).logcumsumexp(1).flip(1)
    if epsilon:
        tails = torch.logaddexp(tails, ordered.amax(1, keepdim=True) + math.log(epsilon))
    return (tails - ordered).sum(1).mean()


def list_net(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the softmax of logits (n, n) under the teacher's, both without the diagonal."""
    n = len(student)
    # Of all elements but the first, the diagonal's are the last of each n + 1.
    student, teacher = (part.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1) for part in (student, teacher))
    return F.cross_entropy(student, teacher.softmax(1))


class RankCSEObjective(DropoutViewsObjective):
    """InfoNCE + beta * divergence of both views' rankings + gamma * ListMLE or ListNet under the teachers' ranking."""

    recipe: RankCSERecipe

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length), teachers' unit vectors (n, its dim) -> two views (n, dim), and the latter."""
        return *super().embed(*collated), *collated[2:]

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        recipe = self.recipe
        h, h_plus, *taught = (part.float() for part in (h, h_plus, *others))
        with torch.autocast(h.device.type, enabled=False):
            cosines = F.normalize(h, dim=-1) @ F.normalize(h_plus, dim=-1).T
            logits = cosines / recipe.temperature
            loss = F.cross_entropy(logits, torch.arange(len(h), device=h.device))
            p, q = logits.softmax(1).clamp(min=1e-7), logits.T.softmax(1).clamp(min=1e-7)
            loss = loss + recipe.consistency_weight * disagreement(p, q, clamped=recipe.divergence != "js")
            weights = (1.0,) if len(taught) == 1 else (recipe.teacher_weight, 1 - recipe.teacher_weight)
            mixed = sum((w * (t @ t.T) for w, t in zip(weights, taught, strict=True)), start=torch.zeros_like(cosines))
            students, teachers = cosines / recipe.student_temperature, mixed / recipe.teacher_temperature
            if recipe.ranking == "listmle":
                ranked = list_mle(students, teachers, recipe.ranking_epsilon)
            else:
                ranked = list_net(students, teachers)
            return loss + recipe.ranking_weight * ranked


def teachers_of(recipe: RankCSERecipe) -> list[tuple[str, type[Encoder], Any]]:
    """Method, class and recipe of each teacher, on the student's backbone; raises UsageError for a RankCSE."""
    shared = {name: getattr(recipe, name) for name in ("backbone", "revision", "dropout")}
    teachers = []
    for spec in parse_methods(",".join(recipe.teachers), all_recipes()):
        if spec.method == "rankcse":
            raise UsageError(f"teachers: {spec.name} has teachers itself; name other recipes.")
        cls, teacher_recipe = spec.resolve(shared)
        teachers.append((spec.method, cls, teacher_recipe))
    return teachers


@register_method("rankcse")
class RankCSE(DropoutViews[RankCSERecipe]):
    """RankCSE: SimCSE that also ranks the batch as one or two trained teachers do; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = RankCSE(RankCSE.Recipe(batch_size=4, teachers=("avg-last",)), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = RankCSEObjective
    vectors: tuple[torch.Tensor, ...] = ()

    @classmethod
    def traits(cls, recipe: RankCSERecipe) -> Traits:
        """Teachers' needs and passes count, and a pass to encode with each."""
        taught = [method.traits(teacher_recipe) for _, method, teacher_recipe in teachers_of(recipe)]
        passes = super().traits(recipe).training_passes + sum(teacher.training_passes + 1 / 3 for teacher in taught)
        pairs = any(teacher.needs_pairs for teacher in taught)
        return replace(super().traits(recipe), needs_corpus=not pairs, needs_pairs=pairs, training_passes=passes)

    @classmethod
    def sources(cls, recipe: RankCSERecipe, runtime: Runtime) -> dict[str, Any]:
        sources = super().sources(recipe, runtime)
        for number, (name, method, teacher_recipe) in enumerate(teachers_of(recipe)):
            try:
                theirs = method.sources(teacher_recipe, runtime)
            except ZooError as error:
                raise type(error)(f"its teacher {name}: {error}") from error
            stated = {
                "method": name,
                "recipe": portable_recipe(teacher_recipe, theirs),
                "code": method_identity(method),
            }
            sources[f"teacher-{number}"] = {**stated, "sources": theirs}
        return sources

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        if corpus is None:
            raise ContractError("RankCSE is trained and needs a corpus; pass --corpus FILE.")
        vectors, seconds = [], 0.0
        for number, (_, method, teacher_recipe) in enumerate(teachers_of(self.recipe)):
            folder = None if run.folder is None else run.folder / f"teacher-{number}"
            teacher = method(teacher_recipe, self.runtime)
            # log_values reports one training: RankCSE's own.
            report = teacher.fit(corpus, dev_score=dev_score, run=replace(run, folder=folder, log_values=None))
            seconds += report.seconds
            vectors.append(F.normalize(torch.from_numpy(teacher.encode(corpus.sentences)), dim=-1))
        self.vectors = tuple(vectors)
        report = super().fit(corpus, dev_score=dev_score, run=run)
        self.vectors = ()
        return replace(report, seconds=round(report.seconds + seconds, 3))

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        batch, rows = super().training_rows(corpus, run)
        vectors = self.vectors
        return lambda numbers: (*batch(numbers), *(part[torch.from_numpy(numbers)] for part in vectors)), rows
