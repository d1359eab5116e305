"""SRL views: their order, and the cache that makes each once."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from zoo.progress import Progress
from zoo.srl.parse import Frame
from zoo.srl.spacy_labeller import SpacyLabeller
from zoo.srl.views import srl_sequence, srl_view, srl_views, views_of


class Parrot:
    """A labeller without a parser: every word in capitals is a predicate, the words beside it its arguments.

    Each call adds a line to `log`; the sentence "stop" interrupts, as Ctrl-C would.
    """

    def __init__(self, log: Path, name: str = "parrot 1") -> None:
        self.log, self.name = log, name

    def identity(self) -> str:
        return self.name

    def label(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[list[Frame]]:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{os.getpid()} {len(sentences)}\n")
        if "stop" in sentences and not self.log.with_name("go").exists():
            raise KeyboardInterrupt
        return [self.frames(str(sentence).split()) for sentence in sentences]

    def frames(self, words: list[str]) -> list[Frame]:
        last = len(words) - 1
        return [
            Frame(tuple(words), (i,), tuple(range(max(i - 1, 0), i)), tuple(range(i + 1, min(i + 1, last) + 1)))
            for i, word in enumerate(words)
            if word.isupper()
        ]


SENTENCES = [f"the number{i} RUNS home" if i % 3 else f"nothing number{i}" for i in range(20)]
VIEWS = [f"number{i} RUNS home" if i % 3 else f"nothing number{i}" for i in range(20)]


def calls(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def test_the_order_is_arg0_pred_neg_arg1_per_predicate() -> None:
    words = ("cats", "not", "in", "eat", "up", "fish", "and", "sleep")
    frames = [Frame(words, (3, 4), arg0=(0,), arg1=(5,), neg=(1,)), Frame(words, (7,), arg0=(0,))]
    assert srl_sequence(frames) == "cats eat up not fish cats sleep"
    assert srl_sequence([]) == ""


def test_the_view_of_real_sentences(labeller: SpacyLabeller) -> None:
    sentence = "She said he did not read the book."
    assert srl_view(sentence, labeller) == "She said he did not read the book he read not the book"
    assert srl_view("  An old  red car.\t", labeller) == "  An old  red car.\t"
    assert views_of([sentence, "Why not?"], labeller) == [srl_view(sentence, labeller), "Why not?"]


def test_views_are_made_once_and_come_in_order(tmp_path: Path) -> None:
    make = partial(Parrot, tmp_path / "log")
    assert srl_views(SENTENCES, tmp_path / "cache", make=make, chunk=8, processes=1) == VIEWS
    assert calls(tmp_path / "log") == [8, 8, 4]
    assert srl_views(SENTENCES, tmp_path / "cache", make=make, chunk=8, processes=1) == VIEWS
    assert calls(tmp_path / "log") == [8, 8, 4]
    assert srl_views(SENTENCES[8:16], tmp_path / "cache", make=make, chunk=8) == VIEWS[8:16]
    assert calls(tmp_path / "log") == [8, 8, 4]
    assert srl_views([], tmp_path / "cache", make=make) == []


def test_another_labeller_or_another_sentence_is_labelled_anew(tmp_path: Path) -> None:
    log, cache = tmp_path / "log", tmp_path / "cache"
    srl_views(SENTENCES, cache, make=partial(Parrot, log), chunk=8, processes=1)
    srl_views(SENTENCES, cache, make=partial(Parrot, log, "parrot 2"), chunk=8, processes=1)
    assert calls(log) == [8, 8, 4] * 2
    changed = [*SENTENCES[:9], "she SAW him", *SENTENCES[10:]]
    assert srl_views(changed, cache, make=partial(Parrot, log), chunk=8, processes=1)[9] == "she SAW him"
    assert calls(log) == [*[8, 8, 4] * 2, 8]


def test_a_damaged_file_is_told_and_made_again(tmp_path: Path) -> None:
    log, cache = tmp_path / "log", tmp_path / "cache"
    make = partial(Parrot, log)
    srl_views(SENTENCES, cache, make=make, chunk=10, processes=1)
    contents = {path: path.read_bytes() for path in cache.glob("*.jsonl.gz")}
    first, second = sorted(contents)
    first.write_bytes(contents[first][:-9])
    second.write_bytes(gzip.compress(gzip.decompress(contents[second]).replace(b"number", b"lumber")))
    stream = StringIO()
    assert srl_views(SENTENCES, cache, make=make, chunk=10, processes=1, progress=Progress(stream)) == VIEWS
    assert stream.getvalue().count("is damaged and is made again") == 2
    assert {path: path.read_bytes() for path in cache.glob("*.jsonl.gz")} == contents


@pytest.mark.slow
def test_real_views_are_cached_under_the_user_s_cache(labeller: SpacyLabeller) -> None:
    sentences = ["The cat chased the dog.", "Old cars"]
    assert srl_views(sentences) == srl_views(sentences) == ["The cat chased the dog", "Old cars"]
    assert list(Path(os.environ["ZOO_BENCH_CACHE"], "srl").glob("srl-*.jsonl.gz"))
