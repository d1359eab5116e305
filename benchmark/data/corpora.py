"""The training text of a run, samples of it, and test texts in it."""

from __future__ import annotations

import hashlib
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from benchmark.data.catalog import catalog
from benchmark.data.readers.frames import Table
from benchmark.data.readers.kinds import is_saved
from benchmark.data.readers.pairs import Pairs, lines_of, read_hub_rows, read_stsb, sample_documents, sample_text
from benchmark.data.readers.ppdb import PER_CLASS, PPDBReport, human_training_rows, is_pack, ppdb_training_rows
from benchmark.data.readers.tables import read
from benchmark.data.sources import DataSource
from zoo.encoder import PHRASE_LABELS, Corpus
from zoo.errors import CorruptError, MissingError, UsageError, ZooError, did_you_mean
from zoo.files import read_signed, sha256_file, sha256_json, write_signed
from zoo.paths import cache_folder, is_dir, is_file, no_file, user_path
from zoo.progress import print_safe

# Hexadecimal digits: among a million texts, the expected number of equal digests is below one.
_DIGEST = 10


# What --corpus takes (`target`: the texts of the run's tasks, without labels) and --pairs (of STSBenchmark, train).
CORPUS, PAIRS = ("corpus",), ("nli", "ppdb-human")
TARGET = "target"
SCORED = "STSBenchmark"


def check_texts(name: str | None, kinds: Collection[str]) -> None:
    """Raise MissingError unless `name` is None, a file, or data sets of these kinds, joined by +."""
    if name is None or name == TARGET or _readable(name):
        return
    known = [entry.name for entry in catalog().values() if entry.kind in kinds]
    known += [SCORED] if kinds == PAIRS else []
    for part in [name] if kinds == CORPUS else name.split("+"):
        if part not in known and not _readable(part):
            what = "is no file"
            if is_dir(user_path(part)):
                what = "is a folder"
            elif kind := no_file(user_path(part)):
                what = f"is {kind};"
            raise MissingError(
                f"{'--corpus' if kinds == CORPUS else '--pairs'} {part}: it {what} and none of"
                f" {', '.join(known)}.{did_you_mean(part, known)}"
            )


def _readable(name: str) -> bool:
    path = user_path(name)
    with suppress(OSError):
        return is_file(path) or is_saved(path) or (path.is_fifo() and not no_file(path))
    return False


Say = Callable[[str], None]
# Sentences, the index of each document's first, and whether an empty line ended a document.
Sample = tuple[list[str], list[int] | None, bool]
# Raised by hand when another sample is drawn.
_DRAW = 1
# Lines that take seconds to read; the clock is looked at after so many.
_LONG, _LOOK = 1_000_000, 10_000
# Until the first word on how far a long text is read, and between two of them.
_SOON, _SECONDS = 15.0, 60.0


def load_corpus(
    name: str,
    data: DataSource,
    count: int | None,
    *,
    documents: bool = False,
    columns: str | None = None,
    say: Say | None = None,
) -> Corpus:
    """Return the sentences of a catalog corpus, a text file or a table, or `count` of them sampled with seed 0.

    With `documents`, neighbours stay together: an empty line ends a document, and a catalog corpus in order is a single
    document. `columns` are those of `tables.read`; `say` gets its report.

    Raises:
        MissingError: The text is not here, or nothing shows its neighbours.
        CorruptError: It cannot be read.
        UsageError: It has no sentence.
    """
    check_texts(name, CORPUS)
    entry = catalog().get(name)
    if entry is not None and entry.kind in CORPUS:
        located = data.locate(name, "plain")
        path = next(iter(located.files.values()))
    else:
        path = user_path(name)
    total = 0 if entry is None or entry.lines is None else entry.lines

    def draw() -> Sample:
        lines = lines_of(path, columns, say)
        if say is not None and total >= _LONG:
            say(f"reading {name}: {total:,} lines of {path}")
            lines = _reported(lines, f"reading {name}", total, say)
        return sample_documents(lines, count) if documents else (sample_text(lines, count), None, False)

    sentences, starts, ended = draw() if count is None or total < _LONG else _kept_sample(path, count, documents, draw)
    if documents and not ended and (entry is None or not entry.ordered):
        starts = None
    if not sentences:
        raise UsageError(f"corpus {path} has no sentence; give text with one sentence per line, or a table.")
    corpus = Corpus(name if entry is not None else path.name, sentences, documents=starts)
    if documents:
        # Raises MissingError where it has none.
        corpus.document_ends()
    return corpus


def _kept_sample(path: Path, count: int, documents: bool, draw: Callable[[], Sample]) -> Sample:
    """A sample of a long text of the catalog, which is drawn once: reading the text takes ten seconds."""
    key = sha256_json([_DRAW, sha256_file(path), count, documents])[:32]
    place = cache_folder() / "samples" / f"{key}.json"
    with suppress(ZooError):
        kept = read_signed(place)
        return kept["sentences"], kept["starts"], kept["ended"]
    sentences, starts, ended = draw()
    # Without room for it, the text is read again.
    with suppress(ZooError):
        write_signed(place, {"sentences": sentences, "starts": starts, "ended": ended})
    return sentences, starts, ended


def _reported(lines: Iterable[str], what: str, total: int, say: Say) -> Iterator[str]:
    due = time.monotonic() + _SOON
    for number, line in enumerate(lines):
        if number % _LOOK == 0 and time.monotonic() >= due:
            say(f"{what}: {number:,}/{total:,}")
            due = time.monotonic() + _SECONDS
        yield line


def target_corpus(texts: Iterable[str], count: int | None) -> Corpus:
    """Return the tasks' distinct texts, or `count` sampled with seed 0; raises MissingError without texts."""
    if not (distinct := list(dict.fromkeys(texts))):
        raise MissingError("none of the tasks has its data here.")
    if count is not None and count < len(distinct):
        distinct = [distinct[i] for i in sorted(random.Random(0).sample(range(len(distinct)), count))]
    return Corpus(TARGET, distinct)


def load_pairs(
    name: str, data: DataSource, count: int | None, *, columns: str | None = None, say: Say | None = None
) -> Corpus:
    """Return training pairs: of the catalog, of a table (see `tables.read`), or of a PPDB pack.

    A row has two texts and a label or a score 0-5, or a text, an equal and an opposite. Scored pairs of the catalog are
    STSBenchmark's training split. + joins labelled sources, as in nli+ppdb2-human; `count` limits each. Raises
    MissingError or CorruptError, UsageError for scored pairs joined with others.
    """
    # The name of a file may contain a +.
    is_path = is_file(user_path(name)) or is_saved(user_path(name))
    check_texts(name, PAIRS)
    parts = [_load_part(part, data, count, columns, say) for part in ([name] if is_path else name.split("+"))]
    sentences = [text for part in parts for text in part.sentences]
    if any(part.scores is not None for part in parts):
        if len(parts) > 1:
            raise UsageError(f"--pairs {name}: scored pairs cannot be joined with other pairs; name one of them.")
        return parts[0]
    labels = [label for part in parts for label in part.labels or ()]
    return Corpus("+".join(part.name for part in parts), sentences, labels)


def _load_part(name: str, data: DataSource, count: int | None, columns: str | None, say: Say | None) -> Corpus:
    entry = catalog().get(name)
    if name == SCORED:
        located = data.locate(name, "tokenised")
        hub = located.files.get("train.jsonl")
        pairs = read_stsb(located.files["sts-train.csv"]) if hub is None else read_hub_rows(hub)
        return _scored(name, pairs.head(count))
    if entry is not None and entry.kind in PAIRS:
        located = data.locate(name, "plain")
        files = list(located.files.values())
    else:
        entry, files = None, [user_path(name)]
    per_class = None if count is None else max(count // len(PHRASE_LABELS), 1)
    if entry is not None and entry.kind == "ppdb-human":
        rows = human_training_rows(files, per_class)
    elif is_file(files[0]) and is_pack(files[0]):
        report = PPDBReport()
        rows = ppdb_training_rows(files[0], report, per_class or PER_CLASS)
        print_safe(f"{files[0].name}: {report}", sys.stderr)
    else:
        # The catalog's pairs have no header: premise, hypothesis, label, source.
        table = read(files[0], columns if entry is None else "1,2,3", training=True)
        if say is not None and entry is None:
            say(table.report)
        if not len(table.frame):
            raise CorruptError(f"{table.report}: there is no pair to train on.")
        if "score" in table.frame:
            return _scored(files[0].name, _pairs(table, files[0]).head(count))
        rows = _labelled(table, files[0], count)
    texts = [text for first, second, _ in rows for text in (first, second)]
    if entry is not None:
        data.record(located)
    return Corpus(name if entry is not None else files[0].name, texts, [label for *_, label in rows])


def _pairs(table: Table, path: Path) -> Pairs:
    scores = table.frame["score"]
    wrong = scores[(scores < 0) | (scores > 5)]
    if len(wrong):
        raise CorruptError(f"{path}:{wrong.index[0]}: score {wrong.iloc[0]} is outside 0..5; scale them to 0..5.")
    return Pairs(table.frame["first"].tolist(), table.frame["second"].tolist(), scores.to_numpy())


def _scored(name: str, pairs: Pairs) -> Corpus:
    texts = [" ".join(text.split()) for pair in zip(pairs.first, pairs.second, strict=True) for text in pair]
    return Corpus(name, texts, scores=pairs.gold.tolist())


def _labelled(table: Table, path: Path, count: int | None) -> list[tuple[str, str, str]]:
    frame = table.frame.head(count) if count is not None else table.frame
    if "second" not in frame:
        raise CorruptError(
            f"{table.report}: training pairs are two texts and a label or a score in each row; fields are separated by"
            " commas in .csv, by tabs in .tsv and .txt."
        )
    firsts, seconds = frame["first"].tolist(), frame["second"].tolist()
    if "label" in frame:
        return list(zip(firsts, seconds, frame["label"].tolist(), strict=True))
    positives = [(first, second, "entailment") for first, second in zip(firsts, seconds, strict=True)]
    if "negative" not in frame:
        return positives
    negatives = zip(firsts, frame["negative"].tolist(), strict=True)
    return [
        row
        for positive, (first, other) in zip(positives, negatives, strict=True)
        for row in (positive, (first, other, "contradiction"))
    ]


def normalised(text: str) -> str:
    """Return lower case, letters and digits only, so that tokenisation does not hide a copy."""
    return re.sub(r"[\W_]+", "", text.lower())


def normalised_texts(texts: Iterable[str]) -> set[str]:
    return {normalised(text) for text in texts} - {""}


def overlap(corpus: Corpus | set[str], tested: Iterable[str]) -> list[str]:
    """Return the digests, sorted, of the distinct texts of `tested` in a corpus, after normalisation.

    Digests let texts of several tasks be counted once.
    """
    known = corpus if isinstance(corpus, set) else normalised_texts(corpus.sentences)
    shared = normalised_texts(tested) & known
    return sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST] for text in shared)
