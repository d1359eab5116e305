"""PT-BERT's attention over pseudo tokens before and after training, and two poolings of its weights."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.states import token_states
from zoo.errors import UsageError
from zoo.methods.ptbert import PTBert, PTBertBranch, PTBertObjective, PTBertRecipe
from zoo.modules.pooler import Pooler
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.checkpoint import undisturbed
from zoo_bench_papers.analysis.encoders import ChosenEncoder, average, task_scores
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable

_ROWS = 50
_POOLERS: dict[str, Pooler] = {"[CLS]": "cls", "mean": "avg"}
_SEED = 1
_FLAT, _REDRAWN, _TO, _BACK = "cos to V(V(mean))", "cos, P drawn anew", "score sd, P to Y", "score sd, Y to Z'"


class Watched(PTBert):
    """PT-BERT that keeps its objective and calls `begun` with itself before the first step."""

    def __init__(self, recipe: PTBertRecipe, runtime: Runtime, begun: Callable[[Watched], None]) -> None:
        super().__init__(recipe, runtime)
        self.begun = begun

    def objective(self) -> PTBertObjective:
        self.trained_objective = PTBertObjective(PTBertBranch(self.backbone.model, self.recipe), self.recipe).to(
            self.runtime.device
        )
        self.begun(self)
        return self.trained_objective


def attention_numbers(branch: PTBertBranch, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float]:
    """Four numbers of a branch over batches of ids and mask (n, length), means over sentences.

    A score's sd is the standard deviation of the inputs of a softmax, averaged over softmaxes.
    """
    drawn_anew = copy.deepcopy(branch)
    with torch.no_grad():
        weight = drawn_anew.pseudo_tokens.weight
        weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(_SEED)))
    cosine = nn.functional.cosine_similarity
    numbers: dict[str, list[float]] = {_FLAT: [], _REDRAWN: [], _TO: [], _BACK: []}
    attention = branch.attention
    with undisturbed(branch), torch.inference_mode():
        branch.eval()
        drawn_anew.eval()
        for ids, mask in batches:
            h, again = (of(ids, mask, of.attention) for of in (branch, drawn_anew))
            for row, length in enumerate(mask.sum(1).tolist()):
                at = ids.new_zeros(1) if branch.states == "cls" else None
                (y,) = token_states(branch.model, ids[row : row + 1, :length], mask[row : row + 1, :length], at=at)
                p = branch.pseudo_tokens.weight[None]
                to, back = attention.scores(p, y), attention.scores(y, attention(p, y, None))
                numbers[_TO].append(float(to.std(-1, correction=0).mean()))
                numbers[_BACK].append(float(back.std(-1, correction=0).mean()))
                flat = branch.mlp(attention.value(attention.value(y.mean(1))))
                numbers[_FLAT].append(float(cosine(h[row], flat[0], dim=0)))
            numbers[_REDRAWN] += cosine(h, again).tolist()
    return {name: statistics.fmean(several) for name, several in numbers.items()}


def analyse_pseudo_tokens(
    methods: str,
    backbones: Sequence[str],
    seeds: int,
    corpus: Corpus,
    texts: Sequence[str],
    tasks: Sequence[LoadedTask],
    runtime: Runtime,
) -> Analysis:
    """Train each recipe on the corpus; its attention's numbers on `texts` before and after training.

    With tasks, also the average of their scores at [CLS] and at the mean of the last layer. Raises UsageError for a
    recipe other than PT-BERT's.
    """
    rows: list[dict[str, object]] = []
    notes: list[str] = []
    for spec in parse_methods(methods, all_recipes()):
        for backbone in backbones:
            cls, recipe = spec.resolve({"backbone": backbone})
            if cls is not PTBert or not isinstance(recipe, PTBertRecipe):
                raise UsageError(f"{spec.name} has no pseudo tokens; name recipes of ptbert.")
            for seed in range(seeds):
                runtime.progress.say(f"{spec.name}, {backbone}, seed {seed}")

                def look(step: int, of: Watched, name: str = spec.name, seed: int = seed) -> None:
                    head = {"Method": name, "Backbone": of.backbone.source.name, "Seed": seed, "Step": step}
                    branch = of.trained_objective.query_branch
                    rows.append({**head, "[CLS]": None, "mean": None})
                    rows[-1] |= attention_numbers(branch, _batches(of, texts))
                    if step:
                        rows[-1] |= _at_both(of, tasks, notes)

                encoder = Watched(recipe, runtime, lambda of: look(0, of))
                report = encoder.fit(corpus, run=Run(seed=seed))
                look(report.steps, encoder)
    numbers: dict[str, int | None] = {_FLAT: 4, _REDRAWN: 5, _TO: 3, _BACK: 3}
    numbers |= dict.fromkeys(_POOLERS, 2) if tasks else {}
    columns = {"Method": None, "Backbone": None, "Seed": None, "Step": None, **numbers}
    about = [
        "P are the pseudo tokens, Y a sentence's token states, Z' = Att(P, Y, Y) and h = Att(Y, Z', Z') (Eq. 1 and 3)."
        f" Over {len(texts):,} sentences, dropout off: mean cosine of h with V(V(mean of Y)), and of h with h after"
        " all of P are drawn anew; mean standard deviation of the scores of a softmax, which is uniform at 0.",
        f"Trained on {len(corpus.sentences):,} sentences of {corpus.name}; the last step's weights, no checkpoint is"
        " chosen." + (f" [CLS] and mean: average of {', '.join(task.name for task in tasks)}." if tasks else ""),
    ]
    table = AnalysisTable("pseudo-tokens", "Attention, before and after", columns, rows, list(dict.fromkeys(notes)))
    conditions = {"corpus": corpus.identity(), "tasks": [task.identity() for task in tasks]}
    return Analysis("pseudo-tokens", "What PT-BERT's pseudo tokens do", about, [table], (), conditions)


def _batches(of: Watched, texts: Sequence[str]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    length = of.recipe.train_max_length
    batches = []
    for start in range(0, len(texts), _ROWS):
        rows = of.backbone.tokenizer(
            list(texts[start : start + _ROWS]), truncation=True, max_length=length, padding=True, return_tensors="pt"
        ).to(of.runtime.device)
        batches.append((rows["input_ids"], rows["attention_mask"]))
    return batches


def _at_both(of: Watched, tasks: Sequence[LoadedTask], notes: list[str]) -> dict[str, float | None]:
    averages: dict[str, float | None] = {}
    for column, pooler in _POOLERS.items():
        recipe = replace(of.recipe, pooler=pooler)
        encoder = PTBert(recipe, of.runtime, of.backbone)
        probe = ChosenEncoder(column, {}, None, PTBert.traits(recipe), partial(PTBert, recipe, of.runtime))
        scores = [task_scores(probe, encoder, task) for task in tasks]
        averages[column] = average([main for main, _, _ in scores])
        notes += [f"n/a: {reason}" for _, _, reason in scores if reason]
    return averages
