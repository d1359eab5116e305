"""Tokens by blank-separated parts are exactly the tokenizer's, whatever the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

from zoo.check import ODD_TEXTS, PROBES
from zoo.engine import tokens
from zoo.engine.hub_models import named_folder
from zoo.engine.tokens import MEMORY, ChunkTokens, clean_text, splits_at_blanks, tokenise

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
    monkeypatch.setattr(tokens, "_REMEMBERED", 2_000)  # the memory is emptied between slices
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


def unigram(_: Path) -> PreTrainedTokenizerFast:
    """Pieces with blanks, and a special token at the end alone, as T5 has."""
    backend = Tokenizer(Unigram([("<unk>", 0.0), ("\u2581", -2.0), *((sign, -3.0) for sign in "abtheruning.")], 0))
    backend.pre_tokenizer = Metaspace()
    backend.add_special_tokens(["</s>"])
    end = backend.token_to_id("</s>")
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")


def cased(_: Path) -> PreTrainedTokenizerFast:
    backend = tokenizer()
    backend.normalizer = BertNormalizer(lowercase=False, strip_accents=False, handle_chinese_chars=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


MAKERS = {"mini": lambda _: BertTokenizer.from_pretrained(named_folder("zoo-mini")), "cased": cased, "unigram": unigram}


@pytest.mark.parametrize("kind", [*MAKERS, "roberta"])
def test_ids_and_cuts_are_the_tokenizers_for_each_kind(
    kind: str, tiny_roberta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few texts and many, from an empty memory, a full one, and one that is emptied between."""
    library = AutoTokenizer.from_pretrained(tiny_roberta) if kind == "roberta" else MAKERS[kind](tiny_roberta)
    some = texts()[:200]
    assert MEMORY.road(library) is not None
    for specials in (True, False):
        for most in (None, 3, 9):
            wanted = [
                library(t, add_special_tokens=specials, truncation=most is not None, max_length=most) for t in some
            ]
            rows = [row["input_ids"] for row in wanted]
            for remembered in (32_000_000, 2_000):
                monkeypatch.setattr(tokens, "_REMEMBERED", remembered)
                monkeypatch.setattr(tokens, "_SLICE", 100)
                table = tokenise(library, some, max_length=most, add_special_tokens=specials)
                assert [table.row(i).tolist() for i in range(len(table))] == rows
            few = tokenise(library, some[:3], max_length=most, add_special_tokens=specials)
            assert [few.row(i).tolist() for i in range(3)] == rows[:3]


def test_a_tokenizer_with_code_of_its_own_goes_its_own_way(tiny_bert: Path) -> None:
    class Upper(BertTokenizer):
        def __call__(self, text: list[str], **options: object) -> object:
            return super().__call__([one.replace("a", "b") for one in text], **options)

    library = Upper.from_pretrained(tiny_bert)
    assert MEMORY.road(library) is None
    assert tokenise(library, ["a cat"], max_length=None).ids.tolist() == library(["a cat"])["input_ids"][0]
    on_its_left = AutoTokenizer.from_pretrained(tiny_bert, truncation_side="left")
    wanted = on_its_left("the river is near", truncation=True, max_length=4)["input_ids"]
    assert tokenise(on_its_left, ["the river is near"], max_length=4).ids.tolist() == wanted


def test_a_tokenizer_that_sees_blanks_reads_whole_texts(tiny_roberta: Path) -> None:
    backend = AutoTokenizer.from_pretrained(tiny_roberta).backend_tokenizer
    assert not splits_at_blanks(backend)
    some = ["the river is near", "", "two  blanks"]
    wanted = [encoding.ids for encoding in backend.encode_batch(some, add_special_tokens=False)]
    table = ChunkTokens(backend).table(some)
    assert [table.row(i).tolist() for i in range(3)] == wanted
