"""`run --dry-run` and `--shard`: causes are grouped, a cell that would be n/a fails, trainings are divided by cost."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Cli
from filelock import FileLock

from benchmark.records.folder import Records
from benchmark.run.plan import EncoderPlan, shard
from benchmark.run.preflight import Preflight


def plan(sentences: int = 0, epochs: int = 1) -> EncoderPlan:
    corpus = SimpleNamespace(sentences=["x"] * sentences) if sentences else None
    row: Any = SimpleNamespace(trained=bool(sentences), recipe=SimpleNamespace(epochs=epochs))
    inputs: Any = SimpleNamespace(corpus=corpus, missing=None)
    return EncoderPlan(row, inputs, "", None, None, "", (), None)


def cost(plan: EncoderPlan) -> int:
    corpus = plan.inputs.corpus
    return 100 + (len(corpus.sentences) * plan.row.recipe.epochs if corpus else 0)


@pytest.mark.parametrize(
    ("plans", "parts", "loads"),
    [
        ([plan(), plan(1000), plan(), plan(1000)], 2, [1200, 1200]),
        ([plan(3000), plan(1000, 3), plan(), plan(), plan()], 2, [3300, 3200]),
        ([plan(900), plan(500), plan(400)], 2, [1000, 1100]),
        ([plan(), plan()], 3, [100, 100, 0]),
    ],
)
def test_each_encoder_is_in_one_part_and_parts_cost_alike(plans: list[Any], parts: int, loads: list[int]) -> None:
    division = [shard(plans, index, parts) for index in range(parts)]
    places = [[next(i for i, other in enumerate(plans) if other is one) for one in part] for part in division]
    assert sorted(place for part in places for place in part) == list(range(len(plans)))
    costs = [
        sum(
            100 + (len(one.inputs.corpus.sentences) * one.row.recipe.epochs if one.inputs.corpus else 0) for one in part
        )
        for part in division
    ]
    assert costs == loads
    assert places == [sorted(part) for part in places], "in the order of the plan"


def test_a_cause_is_said_once_and_fails(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven data sets that are not here are one line; with --allow-missing the plan is good as it is."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("ZOO_BENCH_DATA", raising=False)
    out = tmp_path / "out"
    words = ("run", "--methods", "bag-of-words", "--suite", "sts", "--dry-run", "--results", out, "--no-controls")
    answer = cli(*words)
    assert answer.code == 1 and not out.exists()
    lines = answer.out.splitlines()
    assert lines[-2] == "7 cells: 0 done, 7 would be n/a."
    where = "STS12 (tokenised, senteval/downstream/STS/STS12-en-test), STS13, STS14, STS15 and 3 more"
    assert lines[-1].startswith(f"n/a: 7 cells: {where}: not in the cache {tmp_path}")
    lines = [line for line in cli(*(word for word in words if word != "--dry-run")).err.splitlines() if "n/a: " in line]
    assert len(lines) == 1 and where in lines[0]
    assert cli(*words, "--allow-missing").code == 0


def test_a_folder_whose_tokenizer_does_not_fit_shows_before_the_run(cli: Cli, tmp_path: Path, tiny_bert: Path) -> None:
    """The encoder is made, as the run would make it; others are not touched by it."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in tiny_bert.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    tokenizer = json.loads((broken / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"] = dict(list(tokenizer["model"]["vocab"].items())[:5])
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    answer = cli(
        "run", "--methods", "cls,bag-of-words", "--backbone", broken, "--dry-run", "--no-controls",
        "--results", tmp_path / "out", "--allow-missing", "--suite", "pocket", "--limit", "5",
    )  # fmt: skip
    assert answer.code == 0 and "8 cells: 0 done, 4 would be n/a." in answer.out
    (line,) = [line for line in answer.out.splitlines() if line.startswith("n/a:")]
    assert line.startswith("n/a: 4 cells of cls") and "tokenizer" in line


def test_during_a_run_it_says_what_is_done_runs_and_failed(cli: Cli, tmp_path: Path) -> None:
    """A part is measured, an encoder fails, and a third is locked by its process."""
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from zoo import register_method\nfrom zoo.methods.bagofwords import BagOfWords\n\n\n"
        '@register_method("broken")\nclass Broken(BagOfWords):\n    """Fails."""\n\n'
        "    def encode(self, texts):\n        if len(texts) > 30:\n"  # not for the few texts of its digest
        '            raise RuntimeError("the disk is full")\n        return super().encode(texts)\n',
        encoding="utf-8",
    )
    results = tmp_path / "out"
    words = (
        "run", "--plugin", plugin, "--methods", "bag-of-words,broken,random", "--no-controls", "--results", results,
        "--tasks", "pocket-phrases,pocket-pairs", "--seeds", "2",
    )  # fmt: skip
    cli(*words, "--shard", "1/2")
    planned = json.loads(cli(*words, "--dry-run", "--json").out)
    assert [one["done"] for one in planned["encoders"]].count(2) in (1, 2)
    cli(*words)
    answer = cli(*words, "--dry-run")
    assert answer.code == 0 and "8 cells: 6 done, 2 failed and would be tried again, 0 would be n/a." in answer.out
    (line,) = [line for line in answer.out.splitlines() if line.startswith("failed:")]
    assert line.startswith("failed: 2 cells of broken: ") and "the disk is full" in line
    record = json.loads(next((results / "records").glob("broken*/*.json")).read_text(encoding="utf-8"))
    folder = Records(results).encoder_folder("broken", record["encoder_key"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(folder.name + ".lock")):
        shown = cli(*words, "--dry-run").out
    assert "broken: 0 of 2 cells done, running" in shown and shown.count("running") == 1


def test_a_dry_run_with_remeasure_counts_nothing_as_done(cli: Cli, tmp_path: Path) -> None:
    words = ("run", "--methods", "bag-of-words", "--tasks", "pocket-pairs", "--no-controls", "--results", tmp_path)
    assert cli(*words).code == 0
    assert "1 cell: 1 done" in cli(*words, "--dry-run").out
    assert "1 cell: 0 done" in cli(*words, "--dry-run", "--remeasure").out


@pytest.mark.parametrize(("here", "printed"), [(0, False), (3 << 30, True), (5 << 30, False)])
def test_too_little_memory_is_said_where_it_is_known(here: int, printed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.run.preflight.memory_here", lambda: here)
    lines = Preflight([], {}, memory=4 << 30).lines()
    assert any("may need 4.0 GiB of memory; this machine has 3.0." in line for line in lines) is printed


def test_a_dry_run_encodes_no_text(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row of every kind: also of those whose table is made as the encoder is."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a text is encoded")

    for place in ("zoo.engine.batching", "zoo.methods.model2vec", "zoo.methods.base"):
        monkeypatch.setattr(f"{place}.encode_table", refused, raising=False)
    methods = "model2vec,static-avg,cls,whitening,simcse,bag-of-words,prompt"
    words = ("run", "--methods", methods, "--suite", "pocket", "--dry-run", "--no-controls", "--results", tmp_path)
    answer = cli(*words)
    assert answer.code == 0 and "0 done, 0 would be n/a" in answer.out, answer.out
