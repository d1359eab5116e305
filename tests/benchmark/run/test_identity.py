"""What identifies a number: a cell is kept while nothing that made it has changed, and nothing else discards it."""

from __future__ import annotations

import ast
import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import FITTED, Cli, Fitted

from benchmark.data.sources import DataSource
from benchmark.keys import cell_key, ingredients
from benchmark.metrics import VERSIONS
from benchmark.tasks import TASKS
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Encoder, Runtime, Traits
from zoo.errors import Interrupted
from zoo.methods.pooled import Average
from zoo.plugins import METHODS, method_identity
from zoo.recipes import all_recipes

ROOT = Path(__file__).parents[3]
FAST = ("--precision", "fp32", "--tasks", "pocket-words", "--limit", "20")


def inputs(cls: type[Encoder], recipe: Any, sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"corpus": None, "dev": None, "precision": "fp32", "limit": None}
    identity = dataclasses.asdict(ingredients(cls, recipe, Traits(), sources, **{**given, **more}))
    assert identity.pop("probe") is None
    return identity


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS.names() if METHODS.is_builtin(name)])
def test_a_moved_module_keeps_a_methods_identity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = METHODS.get(name)
    before = method_identity(cls)
    monkeypatch.setattr(METHODS, "_entries", {**METHODS._entries, name: type(METHODS._entries[name])(cls, "elsewhere")})
    monkeypatch.setattr(cls, "__module__", "zoo.methods.elsewhere")
    assert method_identity(cls) == before


def test_a_raised_version_is_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    before = method_identity(Average)
    monkeypatch.setattr(Average, "version", Average.version + 1)
    assert method_identity(Average) != before


@pytest.mark.slow
def test_names_of_a_users_own_files_are_in_no_key(tiny_bert: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "another-name"
    shutil.copytree(tiny_bert, renamed)
    identities = []
    for folder in (tiny_bert, renamed):
        recipe = Average.Recipe(backbone=str(folder))
        identities.append(inputs(Average, recipe, Average.sources(recipe, Runtime())))
    assert identities[0] == identities[1]
    assert "another-name" not in json.dumps(identities)
    texts = [{"name": name, "sentences": 3, "sha256": "0" * 64} for name in ("mine.txt", "copy.txt", "wiki")]
    keys = [inputs(Average, Average.Recipe(), {}, corpus=text) for text in texts]
    assert keys[0] == keys[1]
    assert keys[2]["corpus"]["name"] == "wiki"  # of the catalog


def records_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((folder / "records").rglob("*.json"))]


def is_of(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    for module in ("fit", "measure"):
        monkeypatch.setattr(f"benchmark.run.{module}.code_digest", lambda: digest)


def test_cells_of_other_code_are_kept_and_their_rows_whole(cli: Cli, tmp_path: Path, monkeypatch: Any) -> None:
    """A third seed by other code joins two; the code of each stands in its record."""

    def run(seeds: int, *more: str) -> str:
        words = ("run", "--methods", "random", "--seeds", seeds, *FAST, "--no-controls", "--results", tmp_path, *more)
        answer = cli(*words)
        assert answer.code == 0
        return answer.err

    is_of(monkeypatch, "1" * 64)
    run(2)
    is_of(monkeypatch, "0" * 64)
    assert "1 cell measured, 2 kept from before" in run(3)
    assert [record["code"]["digest"][0] for record in records_of(tmp_path)].count("1") == 2
    (row,) = json.loads((tmp_path / "pocket-trial.json").read_text("utf-8"))["rows"]
    assert row["scores"]["pocket-words"]["mean"] is not None
    assert "3 cells measured, 0 kept" in run(3, "--remeasure")
    assert {record["code"]["digest"][0] for record in records_of(tmp_path)} == {"0"}


@pytest.mark.slow
def test_what_is_made_again_goes_on_after_a_stop(cli: Cli, fakes: None, tmp_path: Path, monkeypatch: Any) -> None:
    """`--remeasure` trains each encoder again once, also where its run is stopped in the middle."""

    def run(*more: str) -> Any:
        words = ("--seeds", "2", "--precision", "fp32", "--limit", "20", "--no-controls", "--results", tmp_path)
        return cli("run", "--methods", "fitted", "--tasks", "pocket-words", *words, *more)

    def stop_at_second(self: Any, corpus: Any, **more: Any) -> Any:
        if len(FITTED) == 3:
            raise Interrupted("stopped", 2)
        return fit(self, corpus, **more)

    fit = Fitted.fit
    FITTED.clear()
    run()
    assert run().code == 0 and FITTED == ["Fitted"] * 2
    monkeypatch.setattr("benchmark.run.executors.utc_now", lambda: "9999-01-01T00:00:00Z")
    for module in ("fit", "measure"):
        monkeypatch.setattr(f"benchmark.run.{module}.utc_now", lambda: "9999-01-01T00:00:01Z")
    monkeypatch.setattr(Fitted, "fit", stop_at_second)
    assert run("--remeasure").code != 0 and FITTED == ["Fitted"] * 3
    monkeypatch.setattr(Fitted, "fit", fit)
    assert "1 cell measured, 1 kept" in run("--remeasure").err and FITTED == ["Fitted"] * 4
    assert not list(tmp_path.glob(".remeasure*"))
    assert run().code == 0 and FITTED == ["Fitted"] * 4


PLUGIN = """
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from zoo import register_method
from zoo.encoder import Encoder

@dataclass(frozen=True)
class Recipe:
    pass

@register_method("loads-its-own")
class LoadsItsOwn(Encoder):
    "Reads a weights file on its own, and names it nowhere."
    Recipe = Recipe
    dim = 4

    def __init__(self, recipe, runtime):
        super().__init__(recipe, runtime)
        self.weights = np.fromstring(Path({path!r}).read_text(), sep=" ")

    def encode(self, texts):
        rows = [[len(t) % 7 * self.weights[0], len(t) % 5 * self.weights[1], t.count("a"), 1.0] for t in texts]
        return np.array(rows, np.float32).reshape(-1, 4)

    def save(self, folder): ...

    @classmethod
    def load(cls, folder, runtime=None):
        return cls(Recipe(), runtime)

    def fingerprint(self):
        return "0"
"""


@pytest.mark.slow
def test_a_plugins_swapped_weights_are_another_cell(cli: Cli, tmp_path: Path) -> None:
    weights, plugin = tmp_path / "weights.txt", tmp_path / "plugin.py"
    plugin.write_text(PLUGIN.replace("{path!r}", repr(str(weights))), encoding="utf-8")
    words = ("run", "--methods", "loads-its-own", *FAST, "--results", tmp_path / "out", "--plugin", plugin)
    weights.write_text("1.0 2.0")
    assert cli(*words, "--embedding-cache", "1").code == 0
    weights.write_text("5.0 -2.0")
    answer = cli(*words, "--embedding-cache", "1")
    assert answer.code == 0 and "1 cell measured, 0 kept" in answer.out + answer.err
    first, second = records_of(tmp_path / "out")
    assert first["key"] != second["key"] and first["scores"]["main"] != second["scores"]["main"]
    assert "1 kept from before" in cli(*words, "--embedding-cache", "1").err
    answer = cli("doctor", "loads-its-own", "--plugin", plugin)
    assert "sources() names no file" in answer.out


def test_keys_of_published_cells_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the run on zoo-mini that is published."""
    expected = json.loads(Path(__file__).with_name("published_keys.json").read_text("utf-8"))
    from zoo.files import sha256_json

    for name, wanted in expected.items():
        cls, recipe = all_recipes()[name].resolve()
        # They were measured by the first version of their method.
        monkeypatch.setattr(cls, "version", 1)
        identity = inputs(cls, recipe, wanted["sources"], precision=wanted["precision"])
        assert sha256_json(identity) == wanted["row_key"], name


@pytest.mark.parametrize("metric", sorted(VERSIONS))
def test_a_raised_metric_is_another_cell_of_its_tasks_alone(metric: str, monkeypatch: Any) -> None:
    def keys() -> dict[str, str]:
        return {task.name: cell_key("0" * 64, task.identity()) for task in load_tasks(names, DataSource(), None)}

    names = [name for name in TASKS.names() if name.startswith("pocket-")]
    before = keys()
    monkeypatch.setitem(VERSIONS, metric, 2)
    users = {"correlation": {"pocket-pairs", "pocket-words", "pocket-phrases"}, "items": {"pocket-topics"}}
    changed = {name for name, key in keys().items() if key != before[name]}
    assert changed == users.get(metric, set())


@pytest.mark.parametrize("path", sorted((ROOT / "benchmark/tasks").glob("*.py")), ids=lambda path: path.stem)
def test_a_task_names_the_metrics_that_it_imports(path: Path) -> None:
    """So that a raised version of one is in its key. Geometry is in no score."""
    tree, imported, named = ast.parse(path.read_text("utf-8")), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmark.metrics."):
            if {name.name for name in node.names} - {"ItemsPart"}:
                imported.add(str(node.module).split(".")[2])
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "metrics":
            named |= set(ast.literal_eval(node.value))
    assert named == imported - {"geometry"} and named <= VERSIONS.keys()
