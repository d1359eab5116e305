"""Positives from the text: each kind against its definition, and one sentence for texts that have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.tokens import TokenTable
from zoo.errors import TrainingError
from zoo.methods.simcse import SimCSE
from zoo.training.augment import generator
from zoo.training.positives import PositivePairs

SIZES = [4, 1, 6, 0, 5, 3, 7, 2]
DOCUMENTS = [0, 3, 6]


def corpus(documents: list[int] | None = DOCUMENTS) -> tuple[Corpus, TokenTable]:
    """Eight sentences in three documents; the ids of sentence i are 100 i, 100 i + 1 ..."""
    rows = [100 * i + np.arange(size, dtype=np.int32) for i, size in enumerate(SIZES)]
    table = TokenTable(np.concatenate(rows), np.cumsum([0, *SIZES], dtype=np.int64))
    return Corpus("eight", [f"sentence {i}" for i in range(8)], documents=documents), table


def rows_of(table: TokenTable) -> list[list[int]]:
    return [table.row(i).tolist() for i in range(len(table))]


def test_neighbours_are_the_next_sentences_of_the_same_document() -> None:
    text, table = corpus()
    pairs = PositivePairs(text, table, "neighbours")
    assert pairs.rows.tolist() == [0, 1, 4, 6]  # 2 and 5 end a document, 3 is empty, 7 is the last
    first, second = pairs.views(pairs.rows, generator(0, 0))
    assert rows_of(first) == [table.row(i).tolist() for i in (0, 1, 4, 6)]
    assert rows_of(second) == [table.row(i).tolist() for i in (1, 2, 5, 7)]


def test_halves_divide_the_tokens_of_a_sentence_at_random() -> None:
    text, table = corpus(None)
    pairs = PositivePairs(text, table, "halves")
    assert pairs.rows.tolist() == [0, 2, 4, 5, 6, 7]
    seen = set()
    for step in range(20):
        first, second = pairs.views(pairs.rows, generator(0, step))
        for row, first_half, second_half in zip(pairs.rows, rows_of(first), rows_of(second), strict=True):
            assert sorted(first_half + second_half) == table.row(int(row)).tolist()
            assert len(first_half) - len(second_half) in (0, 1)
        seen.add(tuple(rows_of(first)[0]))
    assert len(seen) > 5
    again = [rows_of(view) for view in pairs.views(pairs.rows, generator(0, 19))]
    assert again == [rows_of(first), rows_of(second)]  # the same draw, so that a resumed training goes on


def test_crops_are_up_to_three_sentences_of_one_document() -> None:
    text, table = corpus()
    pairs = PositivePairs(text, table, "crops")
    stretches = {0: (0, 1, 2), 1: (1, 2), 2: (2,), 3: (3, 4, 5), 4: (4, 5), 5: (5,), 6: (6, 7), 7: (7,)}
    assert pairs.rows.tolist() == list(stretches)
    drawn: dict[int, set[tuple[int, ...]]] = {row: set() for row in stretches}
    for step in range(50):
        for view in pairs.views(pairs.rows, generator(1, step)):
            for row, piece in zip(pairs.rows.tolist(), rows_of(view), strict=True):
                document = [token for i in stretches[row] for token in table.row(i).tolist()]
                start = document.index(piece[0])
                assert document[start : start + len(piece)] == piece
                assert max(int(0.3 * len(document)), 1) <= len(piece) <= max(0.7 * len(document), 1)
                drawn[row].add(tuple(piece))
    assert len(drawn[0]) > 10


def test_a_mix_has_neighbours_and_halves_about_equally() -> None:
    text, table = corpus()
    pairs = PositivePairs(text, table, "mix")
    assert pairs.rows.tolist() == [0, 1, 2, 4, 5, 6, 7]
    neighbours = 0
    for step in range(400):
        first, second = pairs.views(np.array([0, 1, 2]), generator(2, step))
        rows_of_view = {tuple(row) for row in rows_of(first)}
        assert tuple(table.row(1).tolist()) in rows_of_view  # one token: it has no halves
        neighbours += tuple(table.row(0).tolist()) in rows_of_view
        assert sorted(map(len, rows_of(first) + rows_of(second))) in ([1, 2, 2, 3, 3, 6], [1, 1, 3, 3, 4, 6])
    assert 150 < neighbours < 250


@pytest.mark.parametrize("how", ["halves", "crops"])
def test_one_word_sentences_have_no_halves(how: str) -> None:
    table = TokenTable(np.arange(3, dtype=np.int32), np.arange(4, dtype=np.int64))
    text = Corpus("words", ["a", "b", "c"], documents=[0, 1, 2])
    with pytest.raises(TrainingError, match=r"^no sentence of words has two known tokens, so there is no positive"):
        PositivePairs(text, table, how)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="has a sentence of known tokens beside it"):
        PositivePairs(text, table, "neighbours")


@pytest.mark.parametrize("how", ["neighbours", "halves", "crops", "mix"])
def test_simcse_trains_on_them(how: str, tiny_bert: Path) -> None:
    """The views stand between [CLS] and [SEP] and are within the length of training."""
    recipe = SimCSE.Recipe(backbone=str(tiny_bert), positives=how, batch_size=4, train_max_length=6)
    encoder = SimCSE(recipe, Runtime())
    text = Corpus("toy", [f"the river number {i} is near the town" for i in range(12)], documents=[0, 6])
    collate, rows = encoder.training_rows(text, Run(seed=0))
    assert rows == {"neighbours": 10}.get(how, 12)
    ids, mask = collate(np.arange(4))
    tokenizer = encoder.backbone.tokenizer
    assert ids.shape == mask.shape and ids.shape[:2] == (4, 2) and ids.shape[2] <= 6
    assert (ids[:, :, 0] == tokenizer.cls_token_id).all()
    last = mask.sum(-1, keepdim=True) - 1
    assert (ids.gather(2, last) == tokenizer.sep_token_id).all()
    assert (mask.sum(-1) > 2).all()
    if how == "neighbours":  # as the tokenizer cuts and frames them
        wanted = tokenizer(list(text.sentences[:5]), truncation=True, max_length=6)["input_ids"]
        assert ids[:, 0].tolist() == wanted[:4] and ids[:, 1].tolist() == wanted[1:]
    traits = SimCSE.traits(recipe)
    assert traits.needs_corpus and traits.needs_neighbours == (how != "halves")
    assert encoder.fit(text, run=Run(seed=0)).steps == 3
