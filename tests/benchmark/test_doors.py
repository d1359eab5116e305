"""Every door opens what every other opens, with equal vectors, or says in one sentence what to give instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers as st
import torch
from fakes import Cli
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer

import benchmark
import zoo
from zoo.errors import UsageError, ZooError
from zoo.files import read_json
from zoo.formats.export import write_sentence_transformers

pytestmark = pytest.mark.slow

TEXTS = ["A small dog runs.", "rain", "The river is near the sea."]
FP32 = zoo.Runtime(precision="fp32")
TABLE = [[f"word {i} and {7 * i % 5}", f"text {3 * i % 7} is {i % 4}", i % 5] for i in range(30)]
KINDS = {  # the method that writes a kind, and the beginning of the sentence where no door opens it
    "sentence-transformers folder": "",
    "folder without Pooling": "has no modules.json, which states the pooling",
    "saved encoder": "",
    "saved by a run": "",
    "export": "",
    "static folder": "",
    "model2vec folder": "",
    "SentenceTransformer": "",
    "zoo Encoder": "",
    "StaticModel": "",
}
EXPORTED = {"sentence-transformers folder", "saved encoder", "saved by a run", "export", "zoo Encoder"}


@pytest.fixture(scope="module")
def kinds(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from model2vec import StaticModel

    place = tmp_path_factory.mktemp("kinds")
    torch.manual_seed(3)
    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32, "mean")]
    prompts = {"query": "query: ", "document": "passage: "}
    library = st.SentenceTransformer(modules=parts, device="cpu", prompts=prompts)
    library.save(str(place / "st"))
    trained: Any = zoo.create(f"simcse-sup:backbone={tiny_bert}", FP32)  # with its MLP; its backbone alone has none
    trained.trained = True  # so that its weights are saved
    zoo.save(trained, place / "saved")
    zoo.save(trained, place / "simcse-0123" / "encoder")
    write_sentence_transformers(trained, place / "export")
    tokenizer = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
    static = modules.StaticEmbedding(tokenizer, embedding_dim=16)
    st.SentenceTransformer(modules=[static], device="cpu").save(str(place / "static"))
    table = np.random.default_rng(0).normal(size=(30522, 16)).astype(np.float32)
    model = StaticModel(table, tokenizer, config={"normalize": True})
    model.save_pretrained(str(place / "model2vec"))
    places = [place / "st", tiny_bert, place / "saved", place / "simcse-0123", place / "export", place / "static"]
    return dict(zip(KINDS, [*places, place / "model2vec", library, trained, model], strict=True))


def bare(given: Any) -> Any:
    """What the library, or the method itself, gives in the place of a path."""
    if not isinstance(given, Path):
        return given
    named = list(given.rglob("method.json"))
    return zoo.load(named[0].parent, FP32) if named else st.SentenceTransformer(str(given), device="cpu")


def by_encode(given: Any, _: Path) -> Any:
    return zoo.encode(given, TEXTS, FP32)


def by_load(given: Any, _: Path) -> Any:
    return zoo.load(given, FP32).encode(TEXTS)


def by_mteb(given: Any, _: Path) -> Any:
    pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")
    return benchmark.for_mteb(given, runtime=FP32)._encode(TEXTS)


def by_export(given: Any, place: Path) -> Any:
    benchmark.export(given, place / "out")
    return st.SentenceTransformer(str(place / "out"), device="cpu").encode(TEXTS)


def score(encoder: Any) -> float:
    results = benchmark.evaluate(encoder, "pocket-words", name="one", quiet=True, precision="fp32", controls=False)
    return float(results.records[0]["scores"]["main"])  # type: ignore[index]


def chosen(encoder: Any) -> float:
    import pandas

    table = pandas.DataFrame(TABLE, columns=["a", "b", "score"])
    (row,) = benchmark.choose(table, {"one": encoder}, precision="fp32", quiet=True).as_dict()["rows"]
    return float(row["score"])


Door = Callable[[Any, Path], Any]
DOORS: dict[str, Door] = {"encode": by_encode, "load": by_load, "for_mteb": by_mteb, "export": by_export}


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_gives_the_same_vectors(kind: str, kinds: dict[str, Any], tmp_path: Path) -> None:
    given, sentence = kinds[kind], KINDS[kind]
    spellings = [given, str(given)] if isinstance(given, Path) else [given]
    wanted = None if sentence else bare(given).encode(TEXTS)
    for number, spelling in enumerate(spellings):
        for name, door in DOORS.items():
            if name == "load" and not isinstance(given, Path):
                continue
            if name == "export" and kind not in EXPORTED:
                with pytest.raises(UsageError, match=sentence or "no stock module|no zoo Encoder|itself runs"):
                    door(spelling, tmp_path)
            elif sentence:
                with pytest.raises(UsageError, match=sentence):
                    door(spelling, tmp_path)
            else:
                (tmp_path / str(number)).mkdir(exist_ok=True)
                np.testing.assert_allclose(door(spelling, tmp_path / str(number)), wanted, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_gives_the_same_score(kind: str, kinds: dict[str, Any], tmp_path: Path) -> None:
    given, sentence = kinds[kind], KINDS[kind]
    for door in (score, chosen):
        for spelling in [given, str(given)] if isinstance(given, Path) else [given]:
            if sentence:
                with pytest.raises(ZooError, match=sentence):
                    door(spelling)
            else:
                assert door(spelling) == pytest.approx(door(bare(given).encode), abs=1e-5)


def test_a_run_measures_saved_encoders_beside_recipes(kinds: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    """They are known by their fingerprints: a second run measures nothing, and one of other weights again."""
    saved = kinds["saved encoder"]
    common = (
        "--tasks",
        "pocket-words",
        "--precision",
        "fp32",
        "--results",
        tmp_path / "out",
        "--no-controls",
        "--json",
    )
    answer = cli("run", "--methods", f"random,{saved}", "--seeds", "1", *common)
    assert answer.code == 0, answer.err
    by_method = {
        r["method"]["name"]: r for r in (json.loads(p.read_text()) for p in tmp_path.rglob("records/*/*.json"))
    }
    assert set(by_method) == {"random", "saved"}
    assert by_method["saved"]["scores"]["main"] == pytest.approx(score(saved), abs=1e-6)
    assert str(saved) not in json.dumps(by_method["saved"]["method"])
    assert "0 cells measured, 1 kept" in cli("run", "--methods", saved, *common).err
    named = cli("run", "--methods", f"{saved},{kinds['saved by a run']}", "--label", "a,b", *common)
    assert named.code == 0 and {path.name for path in (tmp_path / "out" / "records").iterdir()} >= {"a", "b"}


@pytest.mark.parametrize("item", ["pretrained:model={}", "pretrained:model={}:pooling=cls", "{}:pooling=cls"])
def test_a_saved_encoder_is_never_taken_for_its_backbone(item: str, kinds: dict[str, Any], cli: Cli) -> None:
    saved = kinds["saved encoder"]
    assert read_json(saved / "config.json"), "its weights are those of a model"
    answer = cli("run", "--methods", item.format(saved), "--tasks", "pocket-words", "--dry-run")
    assert answer.code == 2 and "has its own recipe; give its folder alone" in answer.err
    assert answer.err.count("\n") == 1


def test_an_export_of_a_folder_has_no_row(kinds: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    answer = cli("export", kinds["saved encoder"], tmp_path / "out")
    assert answer.code == 0 and "written" in answer.out and not (tmp_path / "out" / "README.md").exists()
    answer = cli("export", kinds["saved encoder"], tmp_path / "two", "--licence", "mit")
    assert answer.code == 2 and "--licence is for a row" in answer.err
