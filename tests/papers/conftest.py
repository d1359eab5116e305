"""A masked language model of thirty words, so that everything about it can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
WORDS = 'the a dog cat is runs sleeps The Dog NASA . : " This sentence means sad happy'.split()
PIECES = ["##s", "##ing", "##S", "run", "sleep"]


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer BERT with an MLM head and a cased WordPiece vocabulary of its own."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("analysis") / "toy"
    vocabulary = {word: i for i, word in enumerate([*SPECIALS, *WORDS, *PIECES])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,  # so that different words give clearly different predictions
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    """Four sentences in the toy's words: the 4 times, dog 2, cat, runs, sleeps and running ..."""
    path = tmp_path / "few.txt"
    path.write_text("the dog runs\nthe cat sleeps\nthe dogs running\nThe dog is the NASA\n", encoding="utf-8")
    return path
