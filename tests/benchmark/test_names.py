"""One door for names: a method's name is taken by no file, label or object, and a label says what it stands for."""

from __future__ import annotations

import json
import random
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml
from fakes import Cli

import benchmark
from benchmark.checking.recorded import recipes_of, row_of_record
from benchmark.records.folder import Records, read_records
from benchmark.run.options import RunOptions
from benchmark.run.rows import asked_rows
from choose.candidates import candidates
from zoo.errors import CorruptError, UsageError
from zoo.recipes import all_recipes, tuned_recipes
from zoo.selection import parse_methods

RECIPES = all_recipes()
# Other names each day.
NAMES = random.Random(date.today().toordinal()).sample(sorted(set(RECIPES) - {"whitening"}), 3)
TUNED = {"trials": 2, "dev": "STS-B", "backbone": "zoo-mini", "corpus": "", "sentences": 0, "study": "0" * 64}


def spelled(name: str) -> list[str]:
    full_width = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in name)
    return [name, name.upper(), name.title(), f" {name}", full_width, f"{name}:epochs=2"]


def tuned_file(folder: Path, stem: str, extends: str, **more: object) -> Path:
    file = folder / "tuned" / f"{stem}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"extends": extends, "tuned": TUNED, **more}), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", NAMES)
def test_no_file_takes_a_method_s_name(name: str, tmp_path: Path) -> None:
    file = tuned_file(tmp_path, name, "whitening", parameters={"k": 7})
    options = RunOptions(methods=name, results=tmp_path)
    with pytest.raises(UsageError, match=f"has the name of the recipe {name} .*Rename the file"):
        options.recipes()
    assert recipes_of(Records(tmp_path))[name] == RECIPES[name], "verify rebuilds the code's own"
    for spelling in (name, name.upper()):
        file = file.rename(file.with_name(f"{spelling}.yaml"))
        with pytest.raises(UsageError, match="has the name of the recipe"):
            parse_methods(str(file), RECIPES)
    child = tmp_path / "tuned" / "child.yaml"
    child.write_text(f"extends: {name}", encoding="utf-8")
    assert parse_methods(str(child), RECIPES)[0].method == RECIPES[name].method, "not the file's beside it"


@pytest.mark.parametrize("name", NAMES)
def test_no_folder_takes_a_method_s_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for spelling in (name, name.upper()):
        (tmp_path / spelling).mkdir()
        (tmp_path / spelling / "config.json").write_text("{}", encoding="utf-8")
        (tmp_path / spelling / "method.json").write_text("{}", encoding="utf-8")
        (spec,) = parse_methods(spelling, RECIPES)
        assert spec.name == name
        (row,) = asked_rows(RunOptions(methods=spelling, controls=False), ()).recipes
        assert row.name == name


@pytest.mark.parametrize(
    ("stem", "extends", "more"),
    [
        ("simcse-tuned", "whitening", {}),
        ("mine", "simcse", {}),
        ("simcse-tuned", "simcse-sup", {}),
        ("simcse-sup-tuned", "simcse", {}),
        ("simcse-tuned", "simcse", {"tuned": None}),
    ],
)
def test_a_tuned_file_is_called_after_what_it_was_tuned_from(
    stem: str, extends: str, more: dict[str, object], tmp_path: Path
) -> None:
    tuned_file(tmp_path, stem, extends, **more)
    with pytest.raises(UsageError, match=r"no tuned recipe of its name: it is .*--methods"):
        tuned_recipes(tmp_path)
    assert stem not in recipes_of(Records(tmp_path))
    tuned_file(tmp_path, stem, extends, **more).unlink()
    tuned_file(tmp_path, f"{extends}-tuned-study2", extends)
    assert {*tuned_recipes(tmp_path)} == {f"{extends}-tuned-study2"}


@pytest.mark.parametrize("name", NAMES)
def test_no_label_or_object_takes_a_method_s_name(name: str) -> None:
    def vectors(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 2), np.float32)

    for spelling in spelled(name):
        with pytest.raises(UsageError, match=f"is that of the recipe {name}, and the row is whitening"):
            asked_rows(RunOptions(methods="whitening", label=spelling, controls=False), ())
        for given, called in ((vectors, "an object"), ("whitening", "whitening")):
            with pytest.raises(UsageError, match=f"is that of the recipe {name}, and the row is {called}"):
                candidates({spelling: given})
        with pytest.raises(UsageError, match=f"is that of the recipe {name}, and the row is an object"):
            benchmark.evaluate(vectors, "pocket-words", name=spelling, quiet=True)
    (row,) = asked_rows(RunOptions(methods=name, label=name.upper(), controls=False), ()).recipes
    assert row.name == name.upper(), "its own name in another case"
    vectors.__name__ = name
    shown = benchmark.evaluate(lambda texts: [[len(text), 1.0] for text in texts], "pocket-words", quiet=True)
    assert shown.records[0]["method"]["name"] == "<lambda>"
    assert candidates([vectors])[0][0] == "function"


@pytest.mark.usefixtures("fakes")
def test_a_label_shows_its_recipe_in_every_output(cli: Cli, tmp_path: Path) -> None:
    words = ("--tasks", "pocket-words,pocket-pairs", "--seeds", 2, "--results", tmp_path, "--limit", 40)
    answer = cli("run", "--methods", "bag,random", *words, "--label", "ours,theirs", "--backbone", "zoo-mini")
    assert answer.code == 0 and "ours (bag)" in answer.err
    outputs = {"terminal": cli("leaderboard", "--results", tmp_path).out}
    for file in [*sorted(tmp_path.glob("pocket-trial*")), tmp_path / "index.html"]:
        outputs[file.name] = file.read_text(encoding="utf-8")
    assert len(outputs) > 4
    outputs["compare"] = cli("compare", "ours", "theirs", "--results", tmp_path).out
    outputs["compare, by the printed name"] = cli("compare", "ours (bag)", "theirs", "--results", tmp_path).out
    outputs["ablation"] = cli("ablation", "ours", "theirs", "--results", tmp_path).out
    outputs["verify"] = json.dumps(cli("verify", tmp_path, "--json").out)
    outputs["diff"] = cli("diff", tmp_path, tmp_path).out
    lacking = [name for name, text in outputs.items() if "ours" in text and "ours (bag)" not in text.replace("\\", "")]
    assert not lacking
    assert "ours (bag)" in outputs["compare"] and "ours (bag)" in outputs["terminal"]
    record = next(r for r in read_records(Records(tmp_path)) if r["method"]["name"] == "ours")
    record["method"]["name"] = "ptbert"
    with pytest.raises(CorruptError, match="name of the recipe ptbert, and is bag"):
        row_of_record(record, recipes_of(Records(tmp_path)))
