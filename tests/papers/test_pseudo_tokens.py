"""What the analysis says of PT-BERT's attention, against the equations in numpy and the recipes' own scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Cli

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods.ptbert import PTBert, PTBertBranch, PTBertObjective
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo_bench_papers.analysis.pseudo_tokens import attention_numbers

pytestmark = pytest.mark.slow

LENGTHS = (5, 3, 8)
SMALL = "pseudo_tokens=6:queue_size=8:batch_size=4"


def branch_of(folder: Path, name: str) -> PTBertBranch:
    _, recipe = parse_methods(f"{name}:{SMALL}", all_recipes())[0].resolve({"backbone": str(folder)})
    torch.manual_seed(4)
    objective = PTBert(recipe, Runtime()).objective()
    assert isinstance(objective, PTBertObjective)
    return objective.query_branch


def by_numpy(branch: PTBertBranch, states: np.ndarray, pseudo: np.ndarray) -> tuple[np.ndarray, Any, Any, Any]:
    """Return h at [CLS], V(V(mean)) and the scores of both softmaxes of one sentence; one head, no biases."""
    w_q, w_k, w_v = (
        one.weight.detach().double().numpy().T
        for one in (branch.attention.query, branch.attention.key, branch.attention.value)
    )
    scale = np.sqrt(states.shape[1])

    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    to = (pseudo @ w_q) @ (states @ w_k).T / scale
    z = softmax(to) @ (states @ w_v)
    back = (states @ w_q) @ (z @ w_k).T / scale
    return (softmax(back) @ (z @ w_v))[0], states.mean(0) @ w_v @ w_v, to, back


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("name", ["ptbert-tokens", "ptbert-tokens-sharp"])
def test_the_numbers_equal_the_equations_in_numpy(tiny_bert: Path, name: str) -> None:
    branch = branch_of(tiny_bert, name).train()
    ids = torch.randint(1000, 20_000, (3, 8), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(8)[None] < torch.tensor(LENGTHS)[:, None]).long()
    numbers = attention_numbers(branch, [(ids[:2, :5], mask[:2, :5]), (ids[2:], mask[2:])])
    assert branch.training
    pseudo = branch.pseudo_tokens.weight.detach().double().numpy()
    anew = torch.randn(pseudo.shape, generator=torch.Generator().manual_seed(1)).double().numpy()
    rows = []
    branch.eval()
    for row, length in enumerate(LENGTHS):
        with torch.inference_mode():
            states = branch.model(input_ids=ids[row : row + 1, :length]).last_hidden_state[0].double().numpy()
        h, flat, to, back = by_numpy(branch, states, pseudo)
        again = by_numpy(branch, states, anew)[0]
        rows.append([cosine(h, flat), cosine(h, again), to.std(1).mean(), back.std(1).mean()])
    np.testing.assert_allclose(list(numbers.values()), np.mean(rows, axis=0), rtol=2e-5)


def test_the_command_trains_and_reads_the_same_weights_twice(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    lines = [f"the {a} sees a {b}" for a in ("cat", "dog", "bird") for b in ("river", "stone", "house", "town")]
    text.write_text("\n".join(lines), encoding="utf-8")
    answer = cli(
        "analyze", "pseudo-tokens", "--methods", f"ptbert:{SMALL}", "--backbone", tiny_bert, "--corpus", text,
        "--suite", "pocket", "--out", tmp_path, "--no-plots", "--device", "cpu", "--precision", "fp32",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    start, end = json.loads((tmp_path / "pseudo-tokens.json").read_text())["tables"]["pseudo-tokens"]["rows"]
    assert (start["Step"], end["Step"]) == (0, 3) and start["mean"] is None
    assert start["cos to V(V(mean))"] != end["cos to V(V(mean))"]

    from benchmark.data.sources import DataSource
    from benchmark.run.vectors import VectorStore
    from benchmark.tasks.loaded import load_tasks
    from benchmark.tasks.suites import suite
    from zoo_bench_papers.analysis.encoders import average

    corpus = Corpus("text", lines)
    for column, pooler in (("[CLS]", "cls"), ("mean", "avg")):
        spec = parse_methods(f"ptbert:{SMALL}:pooler={pooler}", all_recipes())[0]
        _, recipe = spec.resolve({"backbone": str(tiny_bert)})
        encoder = PTBert(recipe, Runtime())
        encoder.fit(corpus, run=Run(seed=0))
        tasks = load_tasks(suite("pocket").tasks, DataSource.from_options(None), None)
        scores = [100 * task.data.score(VectorStore(encoder, "again"))["main"] for task in tasks if task.data]
        assert end[column] == pytest.approx(average(scores), abs=1e-4)


def test_a_recipe_without_pseudo_tokens_is_refused(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one\ntwo\n", encoding="utf-8")
    common = ("--backbone", tiny_bert, "--corpus", text, "--suite", "pocket", "--out", tmp_path, "--no-plots")
    answer = cli("analyze", "pseudo-tokens", "--methods", "simcse", *common)
    assert answer.code != 0 and "simcse has no pseudo tokens; name recipes of ptbert." in answer.err
