"""What identifies a number: a cell is kept while nothing that made it has changed, and nothing else discards it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import FITTED, Cli

from benchmark.keys import code_digest, ingredients
from zoo.encoder import Encoder, Runtime, Traits
from zoo.identity import method_identity
from zoo.methods.pooled import Average
from zoo.plugins import METHODS
from zoo.recipes import all_recipes

ROOT = Path(__file__).parents[3]
FAST = ("--precision", "fp32", "--tasks", "pocket-words", "--limit", "20")


def inputs(cls: type[Encoder], recipe: Any, sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the key of an encoder hashes."""
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
    monkeypatch.setattr(Average, "version", 2)
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
    """All records of a results folder."""
    return [json.loads(path.read_text("utf-8")) for path in sorted((folder / "records").rglob("*.json"))]


def is_of(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    """Let what is run be of a code."""
    for module in ("fit", "measure", "runner"):
        monkeypatch.setattr(f"benchmark.run.{module}.code_digest", lambda: digest)


def test_cells_of_other_code_are_kept_and_counted(cli: Cli, tmp_path: Path, monkeypatch: Any) -> None:
    words = ("run", "--methods", "random", "--seeds", "1", *FAST, "--no-controls", "--results", tmp_path)
    is_of(monkeypatch, "1" * 64)
    assert cli(*words).code == 0
    (first,) = records_of(tmp_path)
    assert first["code"] == {"digest": "1" * 64} and "--remeasure" not in cli(*words).err
    is_of(monkeypatch, "0" * 64)
    answer = cli(*words)
    assert "1 kept cells were made by other code" in answer.err
    assert "1 cells measured, 0 kept" in cli(*words, "--remeasure").err
    (again,) = records_of(tmp_path)
    assert again["code"]["digest"] == "0" * 64 and again["scores"]["main"] == first["scores"]["main"]
    assert "other code" not in cli(*words).err


@pytest.mark.slow
def test_an_encoder_of_other_code_is_named(cli: Cli, fakes: None, tmp_path: Path, monkeypatch: Any) -> None:
    def run(tasks: str, *more: str) -> str:
        words = ("--seeds", "1", "--precision", "fp32", "--limit", "20", "--no-controls", "--results", tmp_path)
        return cli("run", "--methods", "fitted", "--tasks", tasks, *words, *more).err

    def trained_by() -> list[str | None]:
        return [record["training"]["code"] for record in records_of(tmp_path)]

    FITTED.clear()
    is_of(monkeypatch, "1" * 64)
    run("pocket-words")
    assert trained_by() == ["1" * 64] and FITTED == ["Fitted"]
    is_of(monkeypatch, "0" * 64)
    printed = run("pocket-words,pocket-pairs")
    assert "trained by other code, and measured by this: fitted, seed 0" in printed and FITTED == ["Fitted"]
    assert trained_by() == ["1" * 64] * 2
    assert "trained by other" not in run("pocket-words,pocket-pairs", "--remeasure")
    assert trained_by() == ["0" * 64] * 2 and FITTED == ["Fitted"] * 2


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
    assert answer.code == 0 and "1 cells measured, 0 kept" in answer.out + answer.err
    first, second = records_of(tmp_path / "out")
    assert first["key"] != second["key"] and first["scores"]["main"] != second["scores"]["main"]
    assert "1 kept from before" in cli(*words, "--embedding-cache", "1").err
    answer = cli("check", "loads-its-own", "--plugin", plugin)
    assert "sources() names no file" in answer.out


def test_keys_of_published_cells_stand() -> None:
    """Two keys of the run on zoo-mini that was published before keys held names and versions."""
    expected = json.loads(Path(__file__).with_name("published_keys.json").read_text("utf-8"))
    from zoo.files import sha256_json

    for name, wanted in expected.items():
        cls, recipe = all_recipes()[name].resolve()
        identity = inputs(cls, recipe, wanted["sources"], precision=wanted["precision"])
        assert sha256_json(identity) == wanted["row_key"], name


def copied(folder: Path) -> Path:
    """Return a copy of the code, without weights, as a wheel has it; the wheel also holds recipes and suites."""
    for package in ("zoo", "benchmark"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("models", "__pycache__"))
    shutil.copytree(ROOT / "configs" / "methods", folder / "zoo" / "configs" / "methods")
    return folder


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("zoo/training/losses.py", True),
        ("zoo/srl/verbs.txt", True),
        ("benchmark/metrics/correlation.py", True),
        ("benchmark/run/vectors.py", True),
        ("benchmark/cli/run.py", False),
        ("benchmark/report/table.py", False),
        ("benchmark/run/options.py", False),
        ("zoo/errors.py", False),
        ("README.md", False),
    ],
)
def test_code_that_computes_numbers_is_in_the_digest(tmp_path: Path, file: str, changes: bool) -> None:
    """An installed copy has the digest of the clone; a new line says something only where numbers are computed."""
    assert code_digest(copied(tmp_path / "a")) == code_digest()
    changed = copied(tmp_path / "b")
    assert file == "README.md" or (changed / file).is_file()
    with (changed / file).open("a", encoding="utf-8") as text:
        text.write("\n")
    assert (code_digest(changed) != code_digest()) == changes


@pytest.mark.slow
def test_a_mean_of_two_codes_is_not_available(cli: Cli, tmp_path: Path, monkeypatch: Any) -> None:
    """Until its command measures the row again; records without a digest, as older ones are, count as of one code."""

    def run(seeds: str, *more: str) -> dict[str, Any]:
        words = ("run", "--methods", "random,random:dim=64", "--seeds", seeds, *FAST, "--no-controls")
        monkeypatch.setattr("sys.argv", ["zoo-bench", *words, "--results", str(tmp_path), *more])
        assert cli(*words, "--results", tmp_path, *more).code == 0
        rows = json.loads((tmp_path / "pocket-trial.json").read_text("utf-8"))["rows"]
        return {row["method"]: row for row in rows}

    is_of(monkeypatch, "1" * 64)
    assert run("2")["random"]["scores"]["pocket-words"]["mean"] is not None
    is_of(monkeypatch, "0" * 64)
    mixed = run("3")
    value = mixed["random"]["scores"]["pocket-words"]
    assert value["mean"] is None and "two versions of the code" in value["reason"]
    assert f"--results {tmp_path} --remeasure" in value["reason"]
    assert "two versions of the code" in cli("compare", "random", "random:dim=64", "--results", tmp_path).err
    assert run("3", "--remeasure")["random"]["scores"]["pocket-words"]["mean"] is not None
    for path in (tmp_path / "records").rglob("*.json"):
        record = json.loads(path.read_text("utf-8"))
        del record["sha256"]
        record["code"] = {"commit": f"{record['seed'] or 0:012}"}
        path.write_text(json.dumps(record), encoding="utf-8")
    assert cli("leaderboard", "--results", tmp_path).code == 0
    assert "two versions of the code" not in (tmp_path / "pocket-trial.md").read_text("utf-8")
