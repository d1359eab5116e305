"""The SRL view of a sentence (PT-BERT, section 4.4), labelled once and cached on disk."""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
import os
import signal
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from filelock import FileLock

from zoo.errors import CorruptError, ZooError
from zoo.files import atomic_path, check_writable, sha256_json
from zoo.limits import end_with_parent
from zoo.paths import cache_folder
from zoo.progress import Progress
from zoo.srl.parse import Frame, Labeller
from zoo.srl.spacy_labeller import make_labeller

# About ten seconds of work.
CHUNK = 5000

MakeLabeller = Callable[[], Labeller]


def srl_sequence(frames: Sequence[Frame]) -> str:
    """ARG0, PRED, ARGM-NEG, ARG1 of each predicate in turn, joined by blanks; "" without predicates."""
    return " ".join(
        word
        for frame in frames
        for positions in (frame.arg0, frame.predicate, frame.neg, frame.arg1)
        for word in frame.words(positions)
    )


def srl_view(sentence: str, labeller: Labeller) -> str:
    """SRL sequence of a sentence; without predicates the sentence itself.

    Examples:
        >>> srl_view("She said he did not read the book.", make_labeller())
        'She said he did not read the book he read not the book'
    """
    return srl_sequence(labeller.label([sentence])[0]) or sentence


def srl_views(
    sentences: Sequence[str],
    folder: Path | None = None,
    *,
    make: MakeLabeller | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    chunk: int = CHUNK,
) -> list[str]:
    """SRL view of every sentence, in order, from the cache `folder` or by labelling.

    Missing chunks of `chunk` sentences are labelled in `processes` processes (None: one per core) and written singly,
    so an interrupted call resumes. A chunk's file name is a sha256 of its sentences and the labeller's identity. `make`
    must be importable by name (None: `make_labeller`). An unwritable folder is a printed warning, without a cache.
    Raises MissingError without spaCy.
    """
    make, progress = make or make_labeller, progress or Progress.silent()
    folder = folder or cache_folder() / "srl"
    labeller = make()
    identity = labeller.identity()
    chunks = [list(sentences[start : start + chunk]) for start in range(0, len(sentences), chunk)]
    paths = [folder / f"srl-{sha256_json([identity, part])[:32]}.jsonl.gz" for part in chunks]
    try:
        check_writable(folder)
    except ZooError as error:
        progress.say(f"warning: semantic roles are not kept: {error}")
        return [view for part in chunks for view in views_of(part, labeller)]
    # Of the processes that train together, one labels and all others read.
    with FileLock(folder / "lock"):
        views = {i: cached for i, path in enumerate(paths) if (cached := _cached_views(path, progress)) is not None}
        missing = {i: part for i, part in enumerate(chunks) if i not in views}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        done = 0
        with progress.bar("semantic roles", sum(map(len, missing.values()))) as bar:
            for i, sentence_views in _label(missing, labeller, make, min(processes or cores, len(missing))):
                try:
                    write_views(paths[i], sentence_views)
                except ZooError as error:
                    # The views are used, but not cached.
                    progress.say(f"warning: semantic roles are not kept: {error}")
                views[i] = sentence_views
                done += len(sentence_views)
                bar.update(done)
    return [view for i in range(len(chunks)) for view in views[i]]


def _label(
    chunks: dict[int, list[str]], labeller: Labeller, make: MakeLabeller, processes: int
) -> Iterator[tuple[int, list[str]]]:
    if processes <= 1:
        for i, sentences in chunks.items():
            yield i, views_of(sentences, labeller)
        return
    # This process may have threads and use a GPU, so it is not forked.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=(make,)) as pool:
        try:
            running = {pool.submit(_work, sentences): i for i, sentences in chunks.items()}
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def views_of(sentences: Sequence[str], labeller: Labeller) -> list[str]:
    return [srl_sequence(frames) or s for s, frames in zip(sentences, labeller.label(sentences), strict=True)]


_workers_labeller: Labeller | None = None


def _start_worker(make: MakeLabeller) -> None:
    global _workers_labeller
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _workers_labeller = make()


def _work(sentences: list[str]) -> list[str]:
    assert _workers_labeller is not None
    return views_of(sentences, _workers_labeller)


def write_views(path: Path, views: Sequence[str]) -> None:
    body = "".join(json.dumps(view) + "\n" for view in views).encode()
    head = json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(head + b"\n" + body, 6, mtime=0))


def read_views(path: Path) -> list[str]:
    try:
        head, _, body = gzip.decompress(path.read_bytes()).partition(b"\n")
        if hashlib.sha256(body).hexdigest() != json.loads(head)["sha256"]:
            raise ValueError("wrong sha256")
        views = [json.loads(line) for line in body.splitlines()]
        if not all(isinstance(view, str) for view in views):
            raise ValueError("a view is no text")
        return views
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise CorruptError(f"{path} is damaged ({error}); delete it to have it made again.") from error


def _cached_views(path: Path, progress: Progress) -> list[str] | None:
    """Views of a cache file; None if absent or, with a printed message, damaged."""
    if not path.exists():
        return None
    try:
        return read_views(path)
    except CorruptError:
        progress.say(f"{path.name} of the SRL cache is damaged and is made again.")
        return None
