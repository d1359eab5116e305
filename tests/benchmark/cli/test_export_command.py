"""`zoo-bench export`: from a run's results to a folder that sentence-transformers opens, with a card."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record
from huggingface_hub import ModelCard

import zoo
from benchmark.interop.export import base_card, export_card

pytestmark = pytest.mark.slow

TEXTS = ["A small dog runs.", "rain"]


@pytest.fixture
def results(cli: Cli, tiny_bert: Path, tmp_path: Path) -> Path:
    """Two seeds of a trained method, one that learns nothing and one that cannot be expressed."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"Sentence number {i} of a toy.\n" for i in range(16)), encoding="utf-8")
    common = ("--tasks", "pocket-words", "--precision", "fp32", "--corpus", corpus, "--seeds", "2")
    methods = "simcse:batch_size=4:learning_rate=0.01,avg-last,isbert"
    answer = cli("run", "--methods", methods, "--backbone", tiny_bert, "--results", tmp_path / "results", *common)
    assert answer.code == 0, answer.err
    return tmp_path / "results"


NAME = "simcse:batch_size=4:learning_rate=0.01"


def test_a_trained_method_is_exported_with_its_card(cli: Cli, results: Path, tmp_path: Path) -> None:
    import sentence_transformers as st

    answer = cli("export", NAME, tmp_path / "one", results, "--seed", "1")
    assert answer.code == 0, answer.err
    assert "seed 1" in answer.out
    records = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("records/simcse*/*.json")]
    record = next(r for r in records if r["seed"] == 1)
    trained = zoo.load(next(results.glob(f"encoders/*-{record['encoder_key'][:16]}")))
    vectors = st.SentenceTransformer(str(tmp_path / "one"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, trained.encode(TEXTS), atol=1e-5)
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"| {record['scores']['main_metric']} | {100 * record['scores']['main']:.2f} |" in card
    assert re.search(r"^# SimCSE \(batch size 4, learning rate 0.01\) on ", card, re.MULTILINE)
    assert re.search(r"\| [\d.-]+ ± [\d.]+ \(2\) \|", card), "what the method has over its two seeds"
    assert 'SentenceTransformer("one")' in card and "16 sentences of" in card and "learning_rate: 0.01" in card
    assert str(tmp_path) not in card and str(tmp_path) not in (tmp_path / "one" / "config.json").read_text()
    data = ModelCard(card).data.to_dict()
    assert (data["language"], data["license"], data["library_name"]) == ("en", "unknown", "sentence-transformers")
    assert "base_model" not in data, "a folder of this machine is no model of the hub"
    (result,) = ModelCard(card).data.eval_results
    assert (result.dataset_name, result.metric_type) == ("pocket-words", record["scores"]["main_metric"])
    first = cli("export", NAME, tmp_path / "two", "--results", results, "--licence", "mit", "--language", "de")
    assert first.code == 0 and "seed 0" in first.out
    data = ModelCard((tmp_path / "two" / "README.md").read_text(encoding="utf-8")).data.to_dict()
    assert (data["language"], data["license"]) == ("de", "mit")


def test_the_base_model_s_own_card_is_asked(tiny_bert: Path, tmp_path: Path) -> None:
    base = shutil.copytree(tiny_bert, tmp_path / "base")
    assert base_card(str(base), None) == {}
    (base / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: [en, fr]\ntags: [x]\n---\n# A\n", "utf-8")
    its_card = base_card(str(base), None)
    assert its_card == {"license": "apache-2.0", "language": ["en", "fr"]}
    backbone = {"name": "bert-base-uncased", "revision": None, "sha256": "0" * 64}
    record = make_record(
        "simcse", "STS-B", 0, training={"corpus": {"name": "wiki", "sentences": 9, "sha256": "1" * 64}}
    )
    record["method"]["sources"] = {"backbone": backbone}
    data = ModelCard(export_card("mine", [record], its_card)).data.to_dict()
    assert (data["base_model"], data["license"], data["language"]) == ("bert-base-uncased", "apache-2.0", ["en", "fr"])
    assert data["model-index"][0]["results"][0]["metrics"][0]["value"] == round(100 * record["scores"]["main"], 2)
    record["limit"] = 20
    card = export_card("mine", [record], its_card)
    assert "(trial on 20 rows of each subset)" in card and "model-index" not in ModelCard(card).data.to_dict()


def test_the_command_pushes_what_it_wrote(
    cli: Cli, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[Any] = []

    def push(folder: Path, repository: str, *, private: bool) -> str:
        assert f'SentenceTransformer("{repository}")' in (folder / "README.md").read_text("utf-8")
        pushed.append((sorted(path.name for path in folder.iterdir()), repository, private))
        return "https://hub/me/mine/commit/abc"

    monkeypatch.setattr("benchmark.interop.export.push_folder", push)
    words = ("export", NAME, tmp_path / "mine", "--results", results, "--push-to-hub", "me/mine", "--private")
    answer = cli(*words)
    assert answer.code == 0 and "pushed: https://hub/me/mine/commit/abc" in answer.out
    ((names, repository, private),) = pushed
    assert {"README.md", "model.safetensors", "modules.json"} <= set(names) and (repository, private) == (
        "me/mine",
        True,
    )


def test_what_cannot_be_exported_is_said_in_a_sentence(cli: Cli, results: Path, tmp_path: Path) -> None:
    cases: dict[tuple[str, ...], str] = {
        ("avg-last",): rf"learned nothing: .* can be exported: {re.escape(NAME)}\.",
        ("isbert",): rf"no stock module .* these can be exported: {re.escape(NAME)}\.",
        ("simcze",): "no record of 'simcze'",
        (NAME, "--seed", "7"): "has no seed 7 in .*there are 0, 1",
    }
    for (method, *more), words in cases.items():
        answer = cli("export", method, tmp_path / "out", "--results", results, *more)
        assert answer.code != 0 and re.search(words, answer.err), answer.err
        assert answer.err.count("\n") == 1 and not (tmp_path / "out").exists()
    for folder in results.glob("encoders/simcse*/encoder"):
        shutil.rmtree(folder)
    answer = cli("export", NAME, tmp_path / "out", "--results", results)
    assert answer.code != 0 and "is gone" in answer.err


@pytest.mark.parametrize(
    ("backbone", "expected"),
    [
        ({"name": "zoo-small"}, None),
        ({"name": "zoo-mini-roberta"}, None),
        ({"name": "folder", "local": True}, None),
        ({}, None),
        ({"name": "bert-base-uncased"}, "bert-base-uncased"),
    ],
)
def test_a_card_names_a_base_model_only_of_the_hub(backbone: dict[str, object], expected: str | None) -> None:
    from benchmark.interop.export import _hub_id

    assert _hub_id(backbone) == expected
