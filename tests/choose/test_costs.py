"""Costs of an encoder are its own: neither its place in the list nor the width of a terminal changes them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from choose.choice import choose
from choose.data import arranged, read_texts
from choose.measures import measure
from choose.shown import lines_of_rows
from zoo.errors import ZooError
from zoo.formats.finished import cut_texts

PAIRS = pd.DataFrame(
    [(f"the {n} house by the {n % 7} sea", f"a {n % 11} boat", n % 6) for n in range(80)],
    columns=["sentence1", "sentence2", "score"],
)
TWICE = """
import json, sys
import pandas
from choose.choice import choose
table, *folders = sys.argv[1:]
frame = choose(pandas.read_json(table), folders, device="cpu", quiet=True).frame
print(json.dumps({name: frame.loc[name, ["load_seconds", "memory_mb"]].tolist() for name in folders}))
"""


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_bert))
    SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu").save_pretrained(str(tmp_path / "first"))
    return tmp_path / "first"


def test_the_first_of_two_copies_pays_no_more_than_the_second(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "second")
    PAIRS.to_json(tmp_path / "table.json")
    # In this process the libraries are loaded already.
    words = [sys.executable, "-c", TWICE, tmp_path / "table.json", folder, tmp_path / "second"]
    answer = subprocess.run([*map(str, words)], capture_output=True, text=True, check=True)
    first, second = json.loads(answer.stdout.splitlines()[-1]).values()
    assert first[0] < second[0] + 0.5, "seconds of loading; the libraries take several"
    assert first[1] < second[1] + 40, "MB; the libraries take over a hundred"


@pytest.mark.parametrize(
    ("tokenizer", "limit", "count"),
    [
        (None, 8, None),
        (object(), 8, None),
        (lambda texts, **_: {"input_ids": [text.split() for text in texts]}, None, None),
        (lambda texts, **_: {"input_ids": [text.split() for text in texts]}, float("inf"), 0),
        (lambda texts, **_: {"input_ids": [text.split() for text in texts]}, 2, 1),
    ],
)
def test_cut_texts_of_an_unknown_limit_are_not_known(tokenizer: Any, limit: float | None, count: int | None) -> None:
    class Model(list[Any]):
        max_seq_length = limit

    assert cut_texts(Model([SimpleNamespace(tokenizer=tokenizer)]), ["a b", "a b c"]) == count


def test_texts_cut_by_a_function_are_not_known() -> None:
    choice = choose(PAIRS, {"lengths": lambda texts: [[len(text), 1.0] for text in texts]}, quiet=True)
    assert choice.as_dict()["rows"][0]["texts_cut"] is None
    assert "lengths: texts cut: not known" in choice.shown()


@pytest.mark.parametrize("dims", [(16, 64), (8, 33, 100)])
def test_dims_wider_than_an_encoder_are_named(folder: Path, dims: tuple[int, ...]) -> None:
    shown = choose(PAIRS, [str(folder)], dims=dims, quiet=True).shown()
    wider = ",".join(str(width) for width in dims if width > 32)
    assert f"--dims {wider}: its vectors have 32 dimensions" in shown


def test_optional_columns_go_before_a_name_is_shortened() -> None:
    name = "organisation/a-model-with-a-long-name-v2"
    rows: list[dict[str, Any]] = [{"name": name, "n": 50}, {"name": "b", "n": 49}]
    columns = [(head, lambda row: f"{row['n']}.00") for head in ("score", "tie", "behind", "ms", "MB", "ms p95")]
    for width in range(30, 90):
        lines = lines_of_rows(rows, columns, width)
        assert max(map(len, lines)) <= width
        assert name in lines[1] or not {"MB", "p95"} & {*lines[0].split()}, lines
    assert name in lines_of_rows(rows, columns, 72)[1]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_a_search_most_of_whose_queries_have_equal_similarities_fails(similarity: str) -> None:
    """Each text has a dimension of its own, as texts without common words have; one that collides changes nothing."""
    rows = pd.DataFrame({"query": [f"q{n}" for n in range(20)], "document": [f"d{n}" for n in range(20)]})
    data = arranged(read_texts(rows, None, None))
    with pytest.raises(ZooError, match=f"all its values of {similarity} are equal"):
        measure(data, np.eye(len(data.texts)), similarity)
    some = np.eye(len(data.texts))
    some[0, data.queries] = 0.5
    with pytest.raises(ZooError, match="are equal for most queries"):
        measure(data, some, similarity)
    some[:12, data.queries] = 0.5
    assert np.ptp(measure(data, some, similarity)[0]) > 0
