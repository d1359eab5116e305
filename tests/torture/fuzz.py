"""Hypothesis spoils the input of every reader: each ends in a right answer or one sentence."""

from __future__ import annotations

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
_ROUND = 1000  # inputs between two looks at the clock
_LONGEST = 20_000  # characters of a sentence, which may name what was given


def fuzz(count: int, seed: int, only: str | None = None, part: str = "1/1", minutes: float = 1e9) -> int:
    """Give each reader so many inputs, a twentieth of that where each loads a model; "2/4": the second quarter.

    `only` are parts of names, separated by commas. After so many minutes the readers that are left get none.
    """
    verdict = Verdict("fuzz")
    with workplace() as folder:
        preload(folder / "first")
        _import_all()
        first, every = map(int, part.split("/"))
        every_reader = readers(folder)
        if only is not None:
            every_reader = [reader for reader in every_reader if any(name in reader.name for name in only.split(","))]
        chosen = sorted(every_reader[first - 1 :: every], key=lambda reader: reader.slow)
        end = time.monotonic() + 60 * minutes
        for number, reader in enumerate(chosen):
            own, share = Verdict(f"  {reader.name}"), max(count // 20, 1) if reader.slow else count

            def work(reader: Reader = reader, own: Verdict = own, share: int = share, number: int = number) -> int:
                return _fuzz(reader, share, 1000 * seed + number, folder / f"fuzz-{number}", own, end)

            ended = forked(work, folder / "logs", most_seconds=3600)
            print(ended.out, end="", flush=True)
            reached = re.search(rf"^  {re.escape(reader.name)}: (\d+) tried", ended.out, re.MULTILINE)
            verdict.tried += int(reached[1]) if reached else 0
            if ended.code != 0 or ended.faults():
                verdict.wrong.append(reader.name)
                print(ended.err[-3000:], end="", flush=True)
        verdict.notes["readers"] = len(chosen)
    return verdict.end()


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

        frames = [frame for frame in extract_tb(error.__traceback__) if "/torture/" not in frame.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:200]}"
    verdict.count("right")
    return reader.right(answer)


def _fuzz(reader: Reader, count: int, seed: int, place: Path, verdict: Verdict, end: float) -> int:
    from tests.torture.mutate import changed_bytes, changed_value

    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    warnings.simplefilter("ignore")
    place.mkdir(parents=True)
    os.chdir(place)
    path = place / reader.file
    path.write_bytes(reader.good)
    problem = judge(reader, path, Verdict("the good input"))
    if problem:
        verdict.fault(f"the good input: {problem}")
        return verdict.end()
    inputs = changed_bytes(reader.good)
    if reader.value is not None:
        inputs |= changed_value(reader.value).map(reader.make)
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

    rounds = random.Random(seed)
    # Hypothesis ends a round where it believes that nothing new is left.
    while verdict.tried < count and time.monotonic() < end:
        before = verdict.tried
        _examples(once, inputs, min(count - verdict.tried, _ROUND), rounds.randrange(2**32))
        if verdict.tried == before:
            break
    return verdict.end()


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
