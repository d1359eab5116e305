"""Hypothesis spoils the input of every reader: each ends in a right answer or one sentence."""

from __future__ import annotations

import gc
import hashlib
import os
import random
import re
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.common import Verdict, forked, preload, workplace
from tests.torture.readers import Reader, readers

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_MOST_MEMORY = 12 << 30  # bytes of address space: an input of some kilobytes that wants more is a fault
_ROUND = 500  # inputs between two looks at the clock
_DISTINCT = 5  # draws until an input that was met before is met again
_LONGEST_READER = 4 * 3600  # seconds
_LONGEST = 20_000  # characters of a sentence, which may name what was given


def fuzz(count: int, seed: int, only: str | None = None, part: str = "1/1", minutes: float = 1e9) -> int:
    """Give each reader so many inputs; "2/4": the second quarter of the readers.

    `only` are parts of names, separated by commas. After so many minutes the readers that are left get none.
    """
    verdict = Verdict("fuzz")
    with workplace() as folder:
        every_reader = readers(folder)
        preload(folder / "first", lambda: _read_good(every_reader, folder / "first"))
        _import_all()
        first, every = map(int, part.split("/"))
        if only is not None:
            every_reader = [reader for reader in every_reader if any(name in reader.name for name in only.split(","))]
        chosen = sorted(every_reader[first - 1 :: every], key=lambda reader: reader.slow)
        end = time.monotonic() + 60 * minutes
        for number, reader in enumerate(chosen):
            own = Verdict(f"  {reader.name}")

            def work(reader: Reader = reader, own: Verdict = own, number: int = number) -> int:
                return _fuzz(reader, count, 1000 * seed + number, folder / f"fuzz-{number}", own, end)

            ended = forked(work, folder / "logs", most_seconds=_LONGEST_READER)
            print(ended.out, end="", flush=True)
            reached = re.search(rf"^  {re.escape(reader.name)}: (\d+) tried", ended.out, re.MULTILINE)
            verdict.tried += int(reached[1]) if reached else 0
            if ended.code != 0 or ended.faults():
                verdict.wrong.append(reader.name)
                print(ended.err[-3000:], end="", flush=True)
        verdict.notes["readers"] = len(chosen)
    return verdict.end()


def _read_good(every_reader: list[Reader], place: Path) -> None:
    """Meet in a fork what the forks of all readers import, so that it is imported once."""
    for reader in every_reader:
        (place / reader.file).write_bytes(reader.good)
        reader.read(place / reader.file)


def _import_all() -> None:
    """Import what each fork would import for itself."""
    from hypothesis import find

    from tests.torture.mutate import changed_bytes

    find(changed_bytes(b"a"), lambda content: True)


def judge(reader: Reader, path: Path, verdict: Verdict) -> str | None:
    """Read a spoilt file; return what is wrong with the outcome, or None."""
    from zoo.errors import ZooError

    try:
        answer = reader.read(path)
    except ZooError as error:
        verdict.count("ended in a sentence")
        text = str(error)
        return (
            None if text.strip() and len(text.splitlines()) <= 3 and len(text) <= _LONGEST else f"no sentence: {text!r}"
        )
    except BaseException as error:
        from traceback import extract_tb

        frames = [frame for frame in extract_tb(error.__traceback__) if "/tests/torture/" not in frame.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:200]}"
    verdict.count("right")
    return reader.right(answer)


def _fuzz(reader: Reader, count: int, seed: int, place: Path, verdict: Verdict, end: float) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    warnings.simplefilter("ignore")
    gc.freeze()  # what is imported stays: a collection need not go through it each time
    place.mkdir(parents=True)
    os.chdir(place)
    path = place / reader.file
    path.write_bytes(reader.good)
    first = Verdict("the good input")
    problem = judge(reader, path, first)
    if problem or "right" not in first.notes:  # spoilt, it would always be refused for the same reason
        verdict.fault(f"the good input: {problem or 'refused'}")
        return verdict.end()
    seen: set[str] = set()

    def once(content: bytes) -> None:
        if verdict.tried >= count:
            return
        verdict.tried += 1
        path.write_bytes(content)
        wrong = judge(reader, path, verdict)
        # One input per kind of fault is told; the search goes on, for there may be others.
        kind = (wrong or "").split(": ")[0]
        if wrong and kind not in seen and len(seen) < 8:
            seen.add(kind)
            verdict.fault(f"{wrong}; input {content[:400]!r}")

    draw = random.Random(seed)
    met: set[bytes] = set()
    # Hypothesis repeats parts and prefers extremes, but costs more than most readers: it draws one in ten.
    share = max(min(count, _ROUND) // 10, 1)
    while verdict.tried < count and time.monotonic() < end:
        _examples(once, _changed(reader), min(count - verdict.tried, share), draw.randrange(2**32))
        for _ in range(min(count - verdict.tried, _ROUND - share)):
            for _ in range(_DISTINCT):
                content = _drawn(reader, draw)
                digest = hashlib.blake2b(content, digest_size=12).digest()
                if digest not in met:
                    break
            met.add(digest)
            once(content)
    verdict.notes["distinct of those drawn plainly"] = len(met)
    return verdict.end()


def _changed(reader: Reader) -> SearchStrategy[bytes]:
    from tests.torture.mutate import changed_bytes, changed_value

    inputs = changed_bytes(reader.good)
    return inputs if reader.value is None else inputs | changed_value(reader.value).map(reader.make)


def _drawn(reader: Reader, draw: random.Random) -> bytes:
    from tests.torture.mutate import drawn_bytes, drawn_value

    if reader.value is None or draw.random() < 0.5:
        return drawn_bytes(reader.good, draw)
    return reader.make(drawn_value(reader.value, draw))


def _examples(once: Callable[[bytes], None], inputs: SearchStrategy[bytes], count: int, number: int) -> None:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    options = settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    seed(number)(options(given(inputs)(once)))()
