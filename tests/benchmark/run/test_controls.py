"""The controls of a run: which are added, for what tasks, and how they are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import Bag, Cli, Fitted

from benchmark import api
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan
from zoo.encoder import Start
from zoo.errors import ContractError, UsageError
from zoo.plugins import METHODS
from zoo.progress import Progress
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

SENTENCES = "pocket-pairs,pocket-phrases"


def planned(methods: str, tmp_path: Path, **options: Any) -> Sequence[EncoderPlan]:
    """Return the encoders of one seed that a run would measure."""
    chosen = {"controls": True, "seeds": 1, "precision": "fp32", "device": "cpu", "results": tmp_path, **options}
    options = RunOptions(methods=methods, **chosen)
    return list(api.prepare(api.Request(options, progress=Progress.silent()), write=False).encoders)


def added(plans: Sequence[EncoderPlan]) -> list[str]:
    return [plan.row.name for plan in plans if plan.row.control]


@pytest.mark.parametrize(
    ("methods", "start"),
    [
        ("simcse", "cls"),
        ("ptbert", "cls"),
        ("simcse:pooler=avg", "avg-last"),
        ("simcse:max_length=8", "cls:max_length=8"),
        ("consert", "avg-top2"),
        ("promptbert", 'prompt:template=This sentence of "[X]" means [MASK] .'),
        ("promptbert-repo", 'prompt-repo:template=This sentence of "[X]" means[MASK].:denoise_from_zero=true'),
        ("static-freq:frequent=9", "static-avg"),
        ("whitening", "avg-first-last-h1:max_length=64"),
        ("simcse-whitening", "cls"),
        ("sif-tokens", "static-avg"),
    ],
)
def test_a_row_that_learns_brings_its_own_start(methods: str, start: str, tiny_bert: Path, tmp_path: Path) -> None:
    """With its own pooling, template and backbone; the name can be typed and means the same row."""
    plans = planned(methods, tmp_path, tasks=SENTENCES, backbone=str(tiny_bert))
    assert added(plans) == [start, "bag-of-words", "random"]
    row, start_row = (next(plan for plan in plans if plan.row.name == name) for name in (methods, start))
    assert (
        row.start_key == start_row.inputs.row_key
        and start_row.start_key is None
        and row.inputs.sources["backbone"] == start_row.inputs.sources["backbone"]
    )
    (spec,) = parse_methods(start, all_recipes())
    assert spec.resolve({"backbone": str(tiny_bert)}) == (start_row.row.cls, start_row.row.recipe)


def test_a_backbone_of_one_row_alone_is_that_of_its_start(tiny_bert: Path, tmp_path: Path) -> None:
    plans = planned(f"simcse:backbone={tiny_bert},cls", tmp_path, tasks="pocket-words", backbone=None)
    assert added(plans) == [f"cls:backbone={tiny_bert}", "random"]
    rows = {plan.row.name: plan for plan in plans}
    assert rows[f"simcse:backbone={tiny_bert}"].start_key != rows["cls"].inputs.row_key


@pytest.mark.parametrize(("tasks", "counted"), [("pocket-words", False), ("pocket-*", False), (SENTENCES, True)])
def test_words_are_counted_where_texts_have_several(tasks: str, counted: bool, tiny_bert: Path, tmp_path: Path) -> None:
    plans = planned("avg-last", tmp_path, tasks=tasks, backbone=str(tiny_bert))
    assert added(plans) == [*(["bag-of-words"] if counted else []), "random"]


def test_tasks_that_train_the_encoder_have_controls_to_train(data_dir: Path, tiny_bert: Path, tmp_path: Path) -> None:
    options = {"suites": "finetune", "data": str(data_dir), "backbone": str(tiny_bert), "corpus": "pocket-text"}
    assert added(planned("simcse,static-freq:frequent=9", tmp_path, **options)) == ["cls"]


def test_what_is_named_is_not_added_again(tiny_bert: Path, tmp_path: Path) -> None:
    """Also under a label; no label is a control's name."""
    options = {"tasks": SENTENCES, "backbone": str(tiny_bert)}
    plans = planned("simcse,cls,random", tmp_path, label="ours,first,chance", **options)
    by_name = {plan.row.name: plan for plan in plans}
    assert added(plans) == ["bag-of-words"] and by_name["ours"].start_key == by_name["first"].inputs.row_key
    with pytest.raises(UsageError, match="the name 'cls' is that of the recipe cls, and the row is simcse"):
        planned("simcse", tmp_path, label="cls", **options)
    assert added(planned("simcse,cls", tmp_path, **options | {"controls": False})) == []


def test_a_plugin_states_its_start_or_has_none(fakes: None, tmp_path: Path) -> None:
    """A wrong statement ends the command before anything is measured."""

    class Begun(Fitted):
        @classmethod
        def start(cls, recipe: Any) -> Start | None:
            return Start("bag", Bag.Recipe(width=recipe.width, salt=recipe.salt))

    class Wrong(Fitted):
        @classmethod
        def start(cls, recipe: Any) -> Start | None:
            return Start("no-such-method", recipe)

    METHODS.register("begun")(Begun)
    METHODS.register("wrong")(Wrong)
    plans = planned("begun:salt=3,fitted", tmp_path, tasks="pocket-words")
    assert added(plans) == ["bag:salt=3", "random"]
    assert {plan.row.name for plan in plans if plan.start_key is not None} == {"begun:salt=3"}
    with pytest.raises(ContractError, match=r"start\(\)"):
        planned("fitted,wrong", tmp_path, tasks="pocket-words")


def test_evaluate_adds_controls_on_request(fakes: None, tmp_path: Path) -> None:
    more = {"tasks": "pocket-pairs", "precision": "fp32", "limit": 20, "seeds": 1, "quiet": True}
    assert [row.name for row in api.evaluate("bag", **more).tables[0].rows] == ["bag"]
    results = api.evaluate("bag", **more, controls=True)
    assert {row.name for row in results.tables[0].rows} == {"bag", "bag-of-words", "random"}


@pytest.mark.usefixtures("fakes")
def test_the_command_adds_controls_and_leaves_them_out(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any other option beside it; the plan shows them; a run file may leave them out, and a typed option wins."""
    monkeypatch.delenv("ZOO_BENCH_CONTROLS")
    words = ("run", "--methods", "bag", "--label", "mine", "--tasks", SENTENCES, "--limit", 20, "--seeds", 1)
    words = (*words, "--precision", "fp32", "--results", tmp_path / "out")
    shown = cli(*words, "--dry-run").out
    assert (
        "mine (bag): 0 of 2" in shown
        and "bag-of-words (control): 0 of 2" in shown
        and "random, seed 0 (control)" in shown
    )
    assert "control" not in cli(*words, "--no-controls", "--dry-run").out
    listed = json.loads(cli(*words, "--dry-run", "--json").out)["encoders"]
    assert {one["method"]: one["control"] for one in listed} == {"mine": False, "bag-of-words": True, "random": True}
    file = tmp_path / "run.yaml"
    file.write_text(f"methods: bag\ntasks: {SENTENCES}\ncontrols: false\n", encoding="utf-8")
    assert "control" not in cli("run", file, "--dry-run").out
    assert "random, seed 0 (control)" in cli("run", file, "--controls", "--dry-run").out
    assert cli(*words).code == 0
    rows = json.loads((tmp_path / "out" / "pocket-trial.json").read_text(encoding="utf-8"))["rows"]
    assert {row["method"]: row["control"] for row in rows} == {
        "mine (bag)": "",
        "bag-of-words": "control",
        "random": "control",
    }
