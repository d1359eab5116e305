"""`zoo-bench reproduce`: what it lists, what it refuses, and an analysis of a paper from the command to the page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from fakes import Cli
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Runtime
from zoo.engine.hub_models import named_folder
from zoo.errors import UsageError
from zoo.methods.pretrained import Pretrained
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo_bench_papers.items import all_items
from zoo_bench_papers.released import checkpoints

pytestmark = pytest.mark.slow


def test_the_list_names_everything_with_needs_or_the_reason(cli: Cli) -> None:
    answer = cli("reproduce", "--list", "--backbone", "zoo-mini", "--train-sentences", 64, "--precision", "fp32")
    assert answer.code == 0, answer.err
    starts = "ptbert", "burt", "promptbert", "promcse", "angle"
    lines = {line.split()[0]: line for line in answer.out.splitlines() if line.startswith(starts)}
    assert set(lines) == set(all_items())
    assert " none " in lines["ptbert-figure1"] and "a drawing" in lines["ptbert-figure1"]
    assert "skipthought:path=FILE" in lines["burt-table2"] and " partly " in lines["burt-table2"]
    printed = cli("reproduce", "--list", "ptbert-table3")
    assert " not here " in printed.out and "--backbone" in printed.out
    assert " partly " in lines["ptbert-table3"] and "would make the rows CLEAR" in lines["ptbert-table3"]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """zoo-mini in the form of SimCSE's releases: a BertModel with a pooler and its tokenizer, no modules.json."""
    folder = tmp_path_factory.mktemp("released") / "unsup-simcse"
    source = named_folder("zoo-mini")
    assert source is not None
    model = AutoModel.from_pretrained(source)
    torch.manual_seed(0)
    model.pooler.dense.weight.data.normal_(0, 0.2)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def test_a_released_checkpoint_stands_beside_its_printed_row(
    cli: Cli, data_dir: Path, tmp_path: Path, released: Path
) -> None:
    """The scores are those of its own recipe ([CLS], [CLS] through the pooler, a template with a period)."""
    line = ("--data", data_dir, "--limit", 10, "--results", tmp_path)
    weights = [word for name in ("simcse", "simcse-sup", "promptbert") for word in ("--weights", f"{name}={released}")]
    answer = cli("reproduce", "promptbert-table6", *weights, *line)
    assert answer.code == 0, answer.err
    template = 'This sentence of "[X]" means[MASK].'
    methods = ["cls", "prompt-repo:template='" + template + "'"]
    stated = cli(
        "run", "--suite", "sts", "--methods", ",".join(methods), "--backbone", "zoo-mini", *line, "--precision", "fp32"
    )
    assert stated.code == 0, stated.err
    with (tmp_path / "sts-trial.csv").open(encoding="utf-8", newline="") as file:
        table = {re.sub(r"(\(released\)) \(.*", r"\1", row["method"]): row for row in csv.DictReader(file)}
    page = (tmp_path / "papers" / "promptbert-table6" / "released.md").read_text(encoding="utf-8").splitlines()
    for name, same, printed in (("simcse", "cls", 68.4), ("promptbert", methods[1], 71.56)):
        score = table[f"{name} (released)"]["STS12"]
        assert score == table[next(row for row in table if row.startswith(same[:10]))]["STS12"]
        at = next(i for i, text in enumerate(page) if text.startswith(f"| {name} (released) ("))
        assert page[at].split(" | ")[2] == f"{float(score):.2f}"
        assert float(page[at + 1].split(" | ")[2]) == pytest.approx(float(score) - printed, abs=0.011)
    assert table["simcse-sup (released)"]["STS12"] != table["simcse (released)"]["STS12"], "the pooler changes vectors"
    assert "n/a: sbert (released)" in answer.err and "hf download sentence-transformers/" in answer.err
    assert "left out: not on the hub, so give the folder (consert:" in answer.out


def test_a_pooler_that_was_not_trained_is_refused() -> None:
    with pytest.raises(UsageError, match="has no trained pooler"):
        Pretrained(Pretrained.Recipe(model="zoo-mini", pooling="pooler"), Runtime())


def test_every_released_checkpoint_made_a_printed_row() -> None:
    for checkpoint in checkpoints().values():
        assert any(checkpoint.printed(item) for item in all_items().values()), checkpoint.name
        assert bool(checkpoint.hub) != bool(checkpoint.where)
        (spec,) = parse_methods(f'{checkpoint.method}:{checkpoint.weights}="folder"', all_recipes())
        _, recipe = spec.resolve({})
        assert recipe.backbone == "folder"


def test_what_cannot_be_measured_or_is_unknown_is_told(cli: Cli) -> None:
    answer = cli("reproduce", "promptbert-table13")
    assert answer.code == 1 and "the recipes `promptbert*` have them" in answer.out
    answer = cli("reproduce", "promptbert-tabel13")
    assert answer.code == 2 and "Did you mean 'promptbert-table13'" in answer.err
    assert "--list has all" in cli("reproduce").err


def test_a_papers_analysis_ends_in_a_page_with_both_numbers(cli: Cli, tmp_path: Path) -> None:
    arguments = ("reproduce", "promptbert-table7", "--backbone", "zoo-mini", "--results", tmp_path, "--device", "cpu")
    dry = cli(*arguments, "--dry-run")
    assert dry.code == 0 and "zoo-bench analyze top-tokens --period" in dry.out and not list(tmp_path.iterdir())
    answer = cli(*arguments, "--precision", "fp32")
    assert answer.code == 0, answer.err
    page = (tmp_path / "papers" / "promptbert-table7" / "beside.md").read_text(encoding="utf-8")
    assert "| **i am sad.** | theirs | sad,sadness,happy,love,happiness |" in page
    assert page.count("| ours | ours |") == 4 and "zoo-mini" in page


def test_what_can_be_had_without_a_data_folder_runs_there(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure whose command lacks its text is not possible; each that is possible runs."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ZOO_BENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    listed = {line["name"]: line for line in json.loads(cli("reproduce", "--list", "--json").out)}
    for name in ("promptbert-figure2", "promptbert-table12"):
        assert listed[name]["possible"] != "yes" and {"wiki", "books"} <= set(listed[name]["missing"])
    for name in (name for name, line in listed.items() if line["possible"] == "yes"):
        answer = cli("reproduce", name, "--seeds", 1, "--train-sentences", 64, "--results", tmp_path / name)
        assert answer.code == 0, (name, answer.err)
