"""Predicted tokens against transformers' own masked language model, fed by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Cli
from scipy.stats import spearmanr

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime
from zoo.methods.prompt import PromptRecipe
from zoo_bench_papers.analysis.result import as_dict
from zoo_bench_papers.analysis.top_tokens import analyse_top_tokens

pytestmark = pytest.mark.slow

TEXTS = ["the dog runs", "The cat is sad"]


def by_hand(folder: Path, text: str) -> tuple[Any, Any, torch.Tensor, torch.Tensor]:
    """Model, tokenizer, h and the template's bias for `This sentence : "text" means [MASK] .`."""
    from transformers import AutoTokenizer, BertForMaskedLM

    model = BertForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    head = tokenizer.convert_tokens_to_ids(["[CLS]", "This", "sentence", ":", '"'])
    tail = tokenizer.convert_tokens_to_ids(['"', "means", "[MASK]", ".", "[SEP]"])
    middle = tokenizer(text, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        h = model.bert(torch.tensor([[*head, *middle, *tail]])).last_hidden_state[0, len(head) + len(middle) + 2]
        positions = torch.tensor([[*range(5), *range(5 + len(middle), 10 + len(middle))]])
        states = model.bert(torch.tensor([[*head, *tail]]), position_ids=positions).last_hidden_state
    return model, tokenizer, h, states[0, 7]


def test_the_command_gives_table_7(cli: Cli, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    texts = [word for text in TEXTS for word in ("--text", text)]
    answer = cli("analyze", "top-tokens", "--backbone", toy, *texts, "--top", 3, "--out", out, "--precision", "fp32")
    assert answer.code == 0, answer.err
    tables = json.loads((out / "top-tokens.json").read_text(encoding="utf-8"))["tables"]
    rows = tables["top-tokens"]["rows"]
    assert [row["Sentence"] for row in rows] == TEXTS
    lines = (out / "top-tokens-probabilities.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Backbone,Sentence,Denoising,Rank,Token,Probability"
    assert len(lines) == 1 + 2 * 2 * 3
    for row in rows:
        model, tokenizer, h, bias = by_hand(toy, row["Sentence"])
        for column, vector in (("Top 3", h), ("Top 3 after denoising", h - bias)):
            with torch.inference_mode():
                probabilities = model.cls(vector[None])[0].softmax(-1)
            best = probabilities.argsort(descending=True)[:3].tolist()
            assert row[column] == ", ".join(tokenizer.convert_ids_to_tokens(best))
            denoised = column != "Top 3"
            columns = [line for line in lines if line.startswith(f"toy,{row['Sentence']},{denoised},")]
            assert [float(line.rsplit(",", 1)[1]) for line in columns] == pytest.approx(
                probabilities[best].tolist(), rel=1e-4
            )
    assert rows[0]["Top 3"] != rows[0]["Top 3 after denoising"]
    assert TEXTS[0] in (out / "top-tokens.md").read_text(encoding="utf-8")


def test_table_9_scores_both_representations(toy: Path) -> None:
    """Eq. 2 and Eq. 3 with and without the bias, by hand."""
    first = ["the dog", "a cat runs", "sad", "The Dog sleeps", "happy", "NASA is a dog"]
    second = ["a dog", "the dog sleeps", "happy", "a cat", "the NASA", "the cat is sad"]
    pairs = Pairs(first, second, np.array([4.5, 2.0, 1.0, 3.0, 0.5, 1.5]))
    (task,) = load_tasks(["pocket-words"], DataSource(None, hub=False), 2)
    assert task.data is not None
    task = dataclasses.replace(task, data=PairsData(task.data.located, {"test": pairs}))
    template = 'This sentence : "[X]" means [MASK] .'
    analysis = analyse_top_tokens([str(toy)], template, TEXTS, 2, Runtime(), words=4, tasks=[task])
    rows = analysis.tables[-1].rows
    assert [row["Sentence embedding"] for row in rows] == ["average of the top 4 tokens", "[MASK] state"]
    for denoised, column in ((False, "no denoising"), (True, "denoising")):
        states, averages = {}, {}
        for text in {*pairs.first, *pairs.second}:
            model, _, h, bias = by_hand(toy, text)
            vector = h - bias if denoised else h
            with torch.inference_mode():
                probabilities = model.cls(vector[None])[0].softmax(-1)
            best = probabilities.argsort(descending=True)[:4]
            words = model.get_input_embeddings().weight.detach()[best]
            states[text] = vector.double().numpy()
            averages[text] = (probabilities[best] @ words / probabilities[best].sum()).double().numpy()
        for row, vectors in zip(rows, (averages, states), strict=True):
            a, b = (np.array([vectors[t] for t in side]) for side in (pairs.first, pairs.second))
            cosines = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
            assert row[column] == pytest.approx(100 * spearmanr(cosines, pairs.gold).statistic, abs=1e-6)


def test_what_sentences_share_is_told_without_their_texts(toy: Path) -> None:
    """A kept analysis of a data set's sentences holds none of them."""
    analysis = analyse_top_tokens(
        [str(toy)], PromptRecipe().template, TEXTS, 3, Runtime(precision="fp32"), listed=False
    )
    (table,) = analysis.tables
    assert [row["Denoising"] for row in table.rows] == ["no denoising", "denoising"]
    for row, denoise in zip(table.rows, (False, True), strict=True):
        listed = analyse_top_tokens([str(toy)], PromptRecipe().template, TEXTS, 3, Runtime(precision="fp32"))
        words = [{*r[f"Top 3{' after denoising' if denoise else ''}"].split(", ")} for r in listed.tables[0].rows]
        assert row["Shared words"] == pytest.approx(len(words[0] & words[1]) / 3)
    assert not any(text in str(as_dict(analysis, "")) for text in TEXTS)
