"""Tokens by blank-separated parts are exactly the tokenizer's, whatever the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from zoo.check import ODD_TEXTS, PROBES
from zoo.engine import tokens
from zoo.engine.hub_models import named_folder
from zoo.engine.tokens import ChunkTokens, clean_text, splits_at_blanks

SIGNS = [*"abÄé\u0301ßİ①漢字.,'-# \t\n\u00a0\u200d\u3000", "[CLS]", "[unused1]", "##s", "the", "running", " "]


def tokenizer() -> Tokenizer:
    folder = named_folder("zoo-mini")
    assert folder is not None
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def texts() -> list[str]:
    rng = np.random.default_rng(0)
    random = ["".join(rng.choice(SIGNS, int(rng.integers(0, 30)))) for _ in range(500)]
    every = sorted(tokenizer().get_vocab())
    return [*PROBES, *(clean_text(text, 0) for text in ODD_TEXTS), *random, *every, " ".join(every)]


@pytest.mark.slow
def test_the_ids_are_the_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SLICE", 100)
    monkeypatch.setattr(tokens, "_MOST", 24_000)  # the memory is emptied between slices
    plain = tokenizer()
    plain.no_truncation()
    wanted = [encoding.ids for encoding in plain.encode_batch(texts(), add_special_tokens=False)]
    by_part = ChunkTokens(tokenizer())
    assert by_part.by_part
    for _ in range(2):  # from an empty memory, and from a full one
        table = by_part.table(texts())
        assert [table.row(i).tolist() for i in range(len(table))] == wanted
    unknown = plain.token_to_id("[UNK]")
    assert any(unknown in row for row in wanted)
    table = ChunkTokens(tokenizer(), [unknown]).table(texts())
    assert [table.row(i).tolist() for i in range(len(table))] == [[t for t in row if t != unknown] for row in wanted]
    assert len(by_part.table([])) == 0


def test_a_tokenizer_that_sees_blanks_reads_whole_texts(tiny_roberta: Path) -> None:
    backend = AutoTokenizer.from_pretrained(tiny_roberta).backend_tokenizer
    assert not splits_at_blanks(backend)
    some = ["the river is near", "", "two  blanks"]
    wanted = [encoding.ids for encoding in backend.encode_batch(some, add_special_tokens=False)]
    table = ChunkTokens(backend).table(some)
    assert [table.row(i).tolist() for i in range(3)] == wanted
