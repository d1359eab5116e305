"""Tokenizers trained on the text: RoBERTa's byte-level BPE and ALBERT's unigram pieces (the `tokenizers` library)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.engine.model_folder import load_pretrained
from zoo.errors import CorruptError, UsageError
from zoo.files import hashes_of, read_signed, write_signed
from zoo.progress import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_POSITIONS = 512


def train_tokenizer(
    kind: str, sentences: Iterable[str], vocabulary: int, progress: Progress
) -> PreTrainedTokenizerBase:
    """Return a transformers tokenizer of `vocabulary` tokens: RoBERTa's (`byte-level-bpe`) or ALBERT's (`unigram`).

    Raises UsageError when the text is too small for that many tokens.
    """
    train = {"byte-level-bpe": _byte_level_bpe, "unigram": _unigram}[kind]
    progress.say(f"training a {kind} tokenizer of {vocabulary:,} tokens")
    tokenizer = train(sentences, vocabulary)
    if len(tokenizer) != vocabulary:
        raise UsageError(
            f"a {kind} tokenizer of {vocabulary:,} tokens cannot be trained on this text: it has only"
            f" {len(tokenizer):,} different ones. Lower `vocabulary`, or give more text."
        )
    return tokenizer


def _byte_level_bpe(sentences: Iterable[str], vocabulary: int) -> PreTrainedTokenizerBase:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import RobertaTokenizer

    first = ["<s>", "<pad>", "</s>", "<unk>"]  # ids 0 to 3 as in RoBERTa; <mask> is the last token
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    if vocabulary < len(first) + len(bytes_) + 1:
        raise UsageError(
            f"a byte-level vocabulary has at least {len(first) + len(bytes_) + 1} tokens, not {vocabulary}."
        )
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1, special_tokens=first, initial_alphabet=sorted(bytes_), show_progress=False
    )
    trained.train_from_iterator(sentences, trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = {**model["vocab"], "<mask>": len(model["vocab"])}
    merges: Any = [tuple(pair) for pair in model["merges"]]
    mask: Any = AddedToken("<mask>", lstrip=True, special=True)  # includes the blank before it, as RoBERTa's
    return RobertaTokenizer(vocab=tokens, merges=merges, mask_token=mask, model_max_length=_POSITIONS)


def _unigram(sentences: Iterable[str], vocabulary: int) -> PreTrainedTokenizerBase:
    from tokenizers import Tokenizer, models, trainers
    from transformers import AlbertTokenizer

    specials = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]  # ids 0 to 4 as in ALBERT
    if vocabulary <= len(specials):
        raise UsageError(f"a unigram vocabulary has more than {len(specials)} tokens, not {vocabulary}.")
    like = AlbertTokenizer().backend_tokenizer
    trained = Tokenizer(models.Unigram())
    trained.normalizer, trained.pre_tokenizer = like.normalizer, like.pre_tokenizer
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    trained.train_from_iterator(sentences, trainer)
    pieces = [tuple(piece) for piece in json.loads(trained.to_str())["model"]["vocab"]]
    return AlbertTokenizer(vocab=pieces, model_max_length=_POSITIONS)


def evenly(sentences: Iterable[str], total: int, wanted: int) -> Iterator[str]:
    """Yield at most `wanted` of `total` sentences, at even distances."""
    step = max(total // max(wanted, 1), 1)
    for number, sentence in enumerate(sentences):
        if number % step == 0 and number // step < wanted:
            yield sentence


def kept_tokenizer(
    folder: Path, key: str, train: Callable[[], PreTrainedTokenizerBase]
) -> tuple[PreTrainedTokenizerBase, str]:
    """Return a trained tokenizer, read from `folder` if it was trained before, and its identity `key`."""
    from transformers import AutoTokenizer

    done = folder / "trained.json"
    kept = read_signed(done) if done.is_file() else {}
    if kept.get("key") == key and kept.get("files") != _files(folder):
        raise CorruptError(f"the tokenizer in {folder} is damaged; remove that folder to have it trained again.")
    if kept.get("key") != key:
        tokenizer = train()
        tokenizer.save_pretrained(folder)
        write_signed(done, {"key": key, "files": _files(folder)})
    return load_pretrained(AutoTokenizer, folder), key


def _files(folder: Path) -> dict[str, str]:
    return {name: sha256 for name, sha256 in hashes_of(folder).items() if name.startswith("tokenizer")}
