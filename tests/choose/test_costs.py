"""Costs of encoders, and the signal of own texts."""

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
from choose.own_texts import document_items
from choose.shown import lines_of_rows
from zoo.errors import UsageError, ZooError
from zoo.formats.finished import cut_texts

# Costs of an encoder are its own: neither its place in the list nor the width of a terminal changes them.

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


# The signal of a text without labels: which pairs it makes, what it holds out, and when there is none.


def written(number: int, lines: int) -> list[str]:
    return [f"Document {number} has a sentence {line}." for line in range(lines)]


def test_pairs_stand_together_or_in_two_documents() -> None:
    signal = document_items([written(i, 9) for i in range(30)])
    used = []
    for half in (signal.development, signal.test):
        used.append(set())
        for first, second, gold in zip(half.first, half.second, half.gold, strict=True):
            (document, line), (other, next_line) = (
                [int(word) for word in half.texts[place].rstrip(".").split() if word.isdigit()]
                for place in (first, second)
            )
            used[-1] |= {document, other}
            assert (gold == 1) == (document == other)
            assert gold == 0 or next_line == line + 1
        assert sorted(half.gold.tolist()) == [0.0] * 12 + [1.0] * 12  # six documents of four couples
        assert len({*half.texts}) == len(half.texts) == 48
    assert not used[0] & used[1] and used[0] | used[1] == signal.held_out


@pytest.mark.parametrize("documents", [15, 20, 31])
def test_two_sentences_of_one_document_are_never_unlike(documents: int) -> None:
    """Of few documents, which have most of the couples by chance."""
    for seed in range(20):
        pairs = document_items([written(i, 12 + i) for i in range(documents)], seed).test
        numbers = np.array([int(text.split()[1]) for text in pairs.texts]).reshape(-1, 2)
        assert (pairs.gold == (numbers[:, 0] == numbers[:, 1])).all()


def test_lists_of_short_lines_have_no_titles() -> None:
    documents = [[f"item {i} {line}" for line in range(6)] for i in range(200)]
    assert "neighbouring sentences" in document_items(documents).test.report


@pytest.mark.parametrize("last", ["Yours. P.S.", "P.S. Yours."])
def test_no_text_of_a_pair_is_anywhere_else(last: str) -> None:
    """A line that all documents share is in no pair, first or second."""
    documents = [
        [*written(i, 6), *(f"{word}{f' {i}.' * (word == 'P.S.')}" for word in last.split())] for i in range(40)
    ]
    signal = document_items(documents)
    others = {line for i, lines in enumerate(documents) if i not in signal.held_out for line in lines}
    assert len(signal.held_out) == 16 and "Yours." in others
    for half in (signal.development, signal.test):
        assert len(half.gold) == 8 * 3 and not {*half.texts} & others


def test_a_title_is_a_pair_with_the_line_below() -> None:
    documents = [[f"On the subject {i}", *written(i, 3)] for i in range(200)]
    pairs = document_items(documents).test
    assert "titles" in pairs.report
    for gold, first, second in zip(pairs.gold, pairs.texts[::2], pairs.texts[1::2], strict=True):
        assert first.startswith("On the subject") and second.endswith("sentence 0.")
        assert (f"Document {first.split()[-1]} " in second) == (gold == 1)
    few = document_items([*documents[:50], *(written(i, 9) for i in range(300, 310))]).test
    assert "neighbouring" in few.report  # a dozen titles are no test


def test_a_long_document_does_not_decide_alone() -> None:
    assert len(document_items([written(i, 500) for i in range(20)]).test.gold) == 4 * 8


def test_vectors_that_know_the_document_are_right() -> None:
    pairs = document_items([written(i, 9) for i in range(30)]).development
    numbers = [int(text.split()[1]) for text in pairs.texts]
    right = measure(pairs, np.eye(30)[numbers])[0]
    assert right.tolist() == pairs.gold.tolist()


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([], "0 documents"),
        ([written(0, 400)], "1 documents"),
        ([written(i, 2) for i in range(50)], "10 pairs"),
        ([written(i, 1) for i in range(900)], "0 pairs"),
        ([["The same.", "And again."]] * 500, "0 pairs"),
    ],
)
def test_a_text_without_signal_says_why(documents: list[list[str]], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        document_items(documents)
