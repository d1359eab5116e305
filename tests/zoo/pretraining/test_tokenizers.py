"""Tokenizers trained on the text have the ids, the special tokens and the reversibility of RoBERTa's and ALBERT's."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_pretraining import POCKET, small, texts
from transformers import AlbertTokenizer, AutoTokenizer, RobertaTokenizer

from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.pretraining.setting import Setting
from zoo.pretraining.tokenizers import evenly, train_tokenizer
from zoo.progress import Progress

SENTENCES = POCKET.read_text(encoding="utf-8").splitlines()
ODD = ["", "Größe 12,5 µm!", "naïve \t tabs", "日本語 and emoji 🙂", "<mask> in text"]


def test_byte_level_bpe_has_robertas_places_and_loses_nothing() -> None:
    tokenizer = train_tokenizer("byte-level-bpe", SENTENCES, 500, Progress.silent())
    assert isinstance(tokenizer, RobertaTokenizer) and len(tokenizer) == 500
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 499]
    for text in [*SENTENCES[:50], *ODD[:-1]]:
        ids = tokenizer(text)["input_ids"]
        assert (ids[0], ids[-1]) == (0, 2) and 3 not in ids
        assert tokenizer.decode(ids[1:-1], clean_up_tokenization_spaces=False) == text
    assert tokenizer("a <mask> b")["input_ids"].count(499) == 1
    # The blank before a mask belongs to the mask, as in the released RoBERTa.
    assert tokenizer("a <mask>")["input_ids"] == tokenizer("a<mask>")["input_ids"]


@pytest.mark.slow
def test_unigram_pieces_have_alberts_places_and_library_scores(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("unigram", SENTENCES, 300, Progress.silent())
    assert isinstance(tokenizer, AlbertTokenizer) and len(tokenizer) == 300
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]) == [0, 1, 2, 3, 4]
    for text in SENTENCES[:50]:
        ids = tokenizer(text)["input_ids"]
        assert (ids[0], ids[-1]) == (2, 3)
        # It lowers case and drops accents, and a character that it never saw is unknown.
        assert 1 in ids or tokenizer.decode(ids[1:-1]).split() == text.lower().split()
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*SENTENCES[:50], *ODD]:
        assert again(text)["input_ids"] == tokenizer(text)["input_ids"]


@pytest.mark.parametrize("kind", ["byte-level-bpe", "unigram"])
def test_a_vocabulary_that_the_text_cannot_fill_is_one_sentence(kind: str) -> None:
    with pytest.raises(UsageError, match="cannot be trained on this text"):
        train_tokenizer(kind, SENTENCES[:3], 20_000, Progress.silent())
    with pytest.raises(UsageError, match="tokens, not 3"):
        train_tokenizer(kind, SENTENCES, 3, Progress.silent())


def test_it_is_trained_once_for_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small(vocabulary=333)
    first = Setting(recipe, texts(tmp_path), Runtime())
    monkeypatch.setattr("zoo.pretraining.setting.train_tokenizer", None)
    again = Setting(recipe, texts(tmp_path), Runtime())
    assert first.tokenizer.get_vocab() == again.tokenizer.get_vocab()
    assert first.stream.sha256 == again.stream.sha256


def test_sentences_are_drawn_evenly() -> None:
    assert list(evenly("abcdefghij", 10, 5)) == list("acegi")
    assert list(evenly("abc", 3, 10)) == list("abc")
    assert len(list(evenly("abcdefghij", 10, 4))) == 4
