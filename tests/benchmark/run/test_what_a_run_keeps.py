"""What a run was given, and how much was trained."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.data.corpora import target_corpus
from zoo.plugins import METHODS
from zoo.recipes import all_recipes

# What a run was given lies in its results folder, where every reader of results finds it.

METHOD = """
from fakes import Bag
from zoo import register_method

@register_method("own-bag")
class OwnBag(Bag):
    '''A bag of words.'''
"""
PAPER = """paper: SaltBag
citation: {name: SaltBag, title: Bags with salt, authors: A. Author, year: 2021, url: "https://example.org/salt"}
"""
SUITE = "title: Own words\ntasks: [pocket-words, pocket-pairs]\ncolumns: [W, P]\nnote: two tasks\n"


@pytest.mark.slow
def test_every_reader_knows_the_recipes_and_suites_of_a_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    files = {
        "bag.py": METHOD,
        "one.yaml": f"extends: own-bag\ncontrol: true\n{PAPER}parameters: {{salt: 2}}\n",
        "two.yaml": "extends: one\nparameters: {salt: 3}\n",
        "own-words.yaml": SUITE,
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    words = "--plugin bag.py --suite own-words.yaml --precision fp32 --no-controls --results out".split()
    done = cli("run", "--methods", "one.yaml,two.yaml,own-bag", *words)
    assert done.code == 0, done.err
    printed = next(line for line in done.out.splitlines() if line.startswith("Next, task by task: "))
    assert cli(*shlex.split(printed.partition("zoo-bench ")[2])).code == 0, printed
    # Another content under one name, and no file any more: both rows are still known.
    Path("two.yaml").write_text("extends: one\nparameters: {salt: 4}\n", encoding="utf-8")
    assert cli("run", "--methods", "two.yaml", *words).code == 0
    for name in filter(lambda name: name.endswith(".yaml"), files):
        Path(name).unlink()
    plugin = ("--plugin", "bag.py")
    verified = cli("verify", out, *plugin)
    assert verified.code == 0, verified.out
    assert "8 cells: 8 verified" in verified.out
    assert "Own words" in cli("leaderboard", "--results", out, *plugin).out
    results = ("--results", out)
    assert cli("diff", out, out, *plugin).code == 0
    assert cli("compare", "one.yaml", "own-bag", *results).code == 0
    for named in (plugin, ()):
        if not named:
            monkeypatch.delitem(METHODS._entries, "own-bag")
        # A recipe of the folder is a control, and is cited, whether its plugin is here or not.
        table = json.loads(cli("leaderboard", "--suite", "own-words", "--json", *results, *named).out)["tables"][0]
        assert {row["method"]: row["control"] for row in table["rows"]}["one"] == "control"
        assert "Bags with salt" in cli("cite", "--suite", "own-words", *results, *named).out
        assert cli("pack", *results, *named).code == 0
    assert "unknown method 'own-bag'. Its run had --plugin bag.py." in cli("verify", out).out


# How much a row was trained: its updates beside the paper's, how far its vectors moved, and the text `target`.

# Sentences or pairs of the papers' corpora: SimCSE's million, its triplets, SNLI and MNLI, ConSERT's sentences.
CORPORA = (1_000_000, 275_601, 942_069, 89_192)
FEW = ("--suite", "pocket", "--tasks", "pocket-words", "--seeds", 1, "--precision", "fp32", "--no-controls")


def test_published_updates_follow_from_a_corpus_of_the_papers() -> None:
    """Those of CT are its code's 5,000, and its other code's pass contrasts each sentence with a fresh one."""
    stated = {name: spec for name, spec in all_recipes().items() if spec.updates is not None}
    assert {"simcse", "simcse-sup", "ptbert", "promptbert-repo", "consert-target", "sbert", "burt"} <= set(stated)
    for name, spec in stated.items():
        _, recipe = spec.resolve()
        if spec.method == "ct":
            assert spec.updates == (recipe.steps or 1_000_000 // (2 * recipe.batch_size))
        elif spec.method == "llm2vec":
            assert spec.updates == recipe.steps
        elif not name.endswith("-small"):  # with another batch size than their papers'
            turns = 1 if len(getattr(recipe, "objectives", "1")) == 1 else 2
            wanted = [turns * recipe.epochs * math.ceil(rows / recipe.batch_size) for rows in CORPORA]
            assert spec.updates in wanted, name


def records_in(folder: Path) -> dict[str, Any]:
    records = (json.loads(path.read_text(encoding="utf-8")) for path in (folder / "records").rglob("*.json"))
    return {record["method"]["name"]: record for record in records}


@pytest.mark.slow
def test_a_row_that_hardly_moved_is_marked(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    names = ["simcse:batch_size=4:learning_rate=1e-12", "simcse:batch_size=4:learning_rate=0.01"]
    line = ("--backbone", tiny_bert, "--corpus", "pocket-text", "--train-sentences", 16, "--results", tmp_path)
    assert cli("run", "--methods", ",".join(names), *FEW, *line).code == 0
    still, moved = (records_in(tmp_path)[name]["training"] for name in names)
    assert still["steps"] == moved["steps"] == 4 and still["paper_updates"] == moved["paper_updates"] == 15_625
    assert still["cosine_to_start"] > 0.9999 and -1 <= moved["cosine_to_start"] < 0.99
    page = (tmp_path / "pocket.md").read_text(encoding="utf-8").splitlines()
    marked = {row: next(text for text in page if f"| {row} |" in text) for row in names}
    assert all("0.026% of the paper's updates" in text for text in marked.values())
    assert ["hardly trained" in marked[row] for row in names] == [True, False]


@pytest.mark.slow
def test_training_on_the_texts_of_the_tasks_is_transductive(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    names = ["consert-target:batch_size=8:epochs=1", "simcse:batch_size=8", "sif-tokens"]
    line = ("--backbone", tiny_bert, "--corpus", "target", "--train-sentences", 32, "--results", tmp_path)
    answer = cli("run", "--methods", ",".join(names), *FEW, *line)
    assert answer.code == 0, answer.err
    for record in records_in(tmp_path).values():
        assert record["training"]["corpus"]["name"] == "target" and record["training"]["corpus"]["sentences"] == 32
    page = (tmp_path / "pocket.md").read_text(encoding="utf-8")
    assert page.count("transductive: fitted on the test texts") == len(names)
    assert page.count("32 test texts are in the training text") == len(names)


@pytest.mark.slow
def test_a_recipe_that_reads_the_tasks_reads_no_other_corpus(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    line = ("--backbone", tiny_bert, "--corpus", "pocket-text", "--train-sentences", 16, "--results", tmp_path)
    names = "consert-target:batch_size=8:epochs=1,consert:batch_size=8:epochs=1"
    assert cli("run", "--methods", names, *FEW, *line).code == 0
    texts = {name.partition(":")[0]: r["training"]["corpus"]["name"] for name, r in records_in(tmp_path).items()}
    assert texts == {"consert-target": "target", "consert": "pocket-text"}
    neighbours = "static-contrastive-neighbours"
    line = ("--corpus", "target", "--results", tmp_path / "n", "--allow-missing")
    answer = cli("run", "--methods", neighbours, *FEW, *line)
    assert answer.code == 0 and "the texts of the tasks (--corpus target) have no order" in answer.err


def test_texts_are_distinct_and_drawn_by_a_fixed_seed() -> None:
    texts = [str(i % 30) for i in range(60)]
    assert target_corpus(texts, None).sentences == texts[:30]
    drawn = target_corpus(texts, 10).sentences
    assert len(set(drawn)) == 10 and drawn == sorted(drawn, key=int) == target_corpus(texts, 10).sentences


@pytest.mark.parametrize("tasks", ["--tasks pocket-words,pocket-pairs", "--suite own-words.yaml"])
def test_a_run_with_a_failed_cell_prints_a_comparison_that_works(
    tasks: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide bag of words gives all pairs of single words one score."""
    monkeypatch.chdir(tmp_path)
    Path("own-words.yaml").write_text(SUITE, encoding="utf-8")
    words = "--methods bag-of-words:dim=8192,bag-of-words:dim=64 --precision fp32 --no-controls --results out"
    done = cli("run", *words.split(), *tasks.split())
    printed = next(line for line in done.out.splitlines() if line.startswith("Next, task by task: "))
    following = cli(*shlex.split(printed.partition("zoo-bench ")[2]))
    assert done.code == 1 and "--tasks pocket-pairs" in printed and following.code == 0, following.err
