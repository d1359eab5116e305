"""A masked language model's tokens for a sentence, before and after template denoising.

PromptBERT section 6.1: table 7 (top-5 tokens at [MASK]) and table 9 (denoising's effect on the scores of the average of
the top-200 tokens, Eq. 3, and of the [MASK] state, Eq. 2).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from torch import nn

from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Runtime, Traits
from zoo.engine.heads import mlm_head
from zoo.methods.prompt import Prompt, PromptRecipe
from zoo_bench_papers.analysis.encoders import ChosenEncoder, average, task_scores
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable

# The examples of table 7.
SENTENCES = (
    "i am sad.",
    "i am not happy.",
    "the man is playing the guitar.",
    "the man is playing the piano.",
)
WITHOUT, WITH = "no denoising", "denoising"


def predicted_tokens(prompt: Prompt, head: nn.Module, texts: Sequence[str], top: int) -> list[list[tuple[str, float]]]:
    with torch.inference_mode():
        states = torch.from_numpy(prompt.encode(texts)).to(prompt.runtime.device)
        best = head(states).float().softmax(-1).topk(top)
    tokenizer = prompt.backbone.tokenizer
    return [
        [(str(tokenizer.decode([token])).strip(), p) for token, p in zip(tokens, probabilities, strict=True)]
        for tokens, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def shared_words(words: Sequence[Collection[str]]) -> tuple[float, float]:
    """Return the mean share of a sentence's tokens that another sentence has too, and its standard error."""
    counts = Counter(token for of in words for token in set(of))
    each = [sum(counts[token] - 1 for token in set(of)) / len(of) / (len(words) - 1) for of in words]
    # A mean over pairs of sentences has two of each.
    return statistics.fmean(each), 2 * statistics.stdev(each) / math.sqrt(len(each))


def analyse_top_tokens(
    backbones: Sequence[str],
    template: str,
    texts: Sequence[str],
    top: int,
    runtime: Runtime,
    *,
    words: int = 200,
    period: bool = False,
    tasks: Sequence[LoadedTask] = (),
    listed: bool = True,
) -> Analysis:
    """The `top` tokens of every text (table 7) for each backbone, and with `tasks` the scores of table 9.

    `words` is the k of Eq. 3; `period` adds a period to a sentence without end mark; without `listed` no text and no
    token of one is shown. Raises UsageError for a backbone without an MLM head or an invalid template.
    """
    token_rows, probabilities, scores, shared = [], [], [], []
    notes: list[str] = []
    for name in backbones:
        undenoised = Prompt(PromptRecipe(backbone=name, template=template, period=period), runtime)
        backbone = undenoised.backbone
        denoised = Prompt(replace(undenoised.recipe, denoise=True), runtime, backbone)
        head = mlm_head(backbone.source, runtime)
        prompts = {WITHOUT: undenoised, WITH: denoised}
        both = {how: predicted_tokens(prompt, head, texts, top) for how, prompt in prompts.items()}
        for how, predicted in both.items() if len(texts) > 1 else ():
            value, error = shared_words([[token for token, _ in of] for of in predicted])
            of_words = {"Shared words": value, "Shared words, error": error}
            shared.append({"Backbone": backbone.source.name, "Denoising": how, "Sentences": len(texts), **of_words})
        for i, text in enumerate(texts):
            row = {"Backbone": backbone.source.name, "Sentence": text}
            lists = {how: ", ".join(token for token, _ in predicted[i]) for how, predicted in both.items()}
            token_rows.append({**row, f"Top {top}": lists[WITHOUT], f"Top {top} after denoising": lists[WITH]})
            probabilities += [
                {**row, "Denoising": how == WITH, "Rank": rank, "Token": token, "Probability": p}
                for how, predicted in both.items()
                for rank, (token, p) in enumerate(predicted[i], 1)
            ]
        if tasks:
            rows, reasons = _table_9(undenoised, words, tasks)
            scores += rows
            notes += reasons
    tables: list[AnalysisTable] = []
    columns: dict[str, int | None]
    if listed:
        columns, stem = dict.fromkeys(token_rows[0]), "top-tokens"
        tables.append(AnalysisTable(stem, "Tokens predicted at [MASK]", columns, token_rows))
        columns, title = dict.fromkeys(probabilities[0]), "Probabilities of these tokens"
        tables.append(AnalysisTable(f"{stem}-probabilities", title, columns, probabilities, data_only=True))
    if shared:
        columns = {**dict.fromkeys(["Backbone", "Denoising", "Sentences"]), "Shared words": 4, "Shared words, error": 4}
        tables.append(AnalysisTable("shared-words", "Tokens that two sentences share", columns, shared))
    added = " Sentences without an end mark get a period." if period else ""
    about = [f"Template: `{template}`. Denoising: predicted from h minus the template's bias (section 4.3).{added}"]
    if tasks:
        about.append(f"Scores: mean over {', '.join(task.name for task in tasks)}, x100.")
        columns = {"Backbone": None, "Sentence embedding": None, WITHOUT: 2, WITH: 2}
        tables.append(AnalysisTable("top-tokens-scores", "Denoising and the scores", columns, scores, notes))
    conditions = {"template": template, "period": period, "words": words, "tasks": [task.identity() for task in tasks]}
    return Analysis("top-tokens", "Tokens predicted for a sentence", about, tables, (), conditions)


def _table_9(undenoised: Prompt, words: int, tasks: Sequence[LoadedTask]) -> tuple[list[dict[str, object]], list[str]]:
    rows, reasons = [], []
    for what, top_k in ((f"average of the top {words} tokens", words), ("[MASK] state", None)):
        row: dict[str, object] = {"Backbone": undenoised.backbone.source.name, "Sentence embedding": what}
        for how in (WITHOUT, WITH):
            recipe = replace(undenoised.recipe, top_k=top_k, denoise=how == WITH)
            encoder = Prompt(recipe, undenoised.runtime, undenoised.backbone)
            prompt = ChosenEncoder(what, {}, None, Traits(), functools.partial(Prompt, recipe, undenoised.runtime))
            undenoised.runtime.progress.say(f"{row['Backbone']}: {what}, {how}")
            measured = [task_scores(prompt, encoder, task) for task in tasks]
            row[how] = average([main for main, _, _ in measured])
            reasons += [f"n/a: {row['Backbone']}, {what}, {how}: {why}" for _, _, why in measured if why]
        rows.append(row)
    return rows, reasons
