"""What the drills share: commands in forked processes, a tiny model, records without what may differ, a verdict."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# What two equal runs may differ in: clocks, memory, and how much a resumed run still had to encode.
DIFFERING = (
    "started",
    "ended",
    "seconds",
    "sentences_per_second",
    "peak_memory_mb",
    "peak_from_mb",
    "encoding",
    "command",
)


@dataclass(frozen=True)
class Ended:
    """A process that ended: its exit code (-9 for a kill), what it wrote, and the seconds that it took."""

    code: int
    out: str
    err: str
    seconds: float
    peak_mb: float

    def faults(self) -> list[str]:
        """Return why this is not how a command may end."""
        sentences = []
        if "Traceback (most recent call last)" in self.err + self.out:
            sentences.append(f"a traceback: {self.err.strip().splitlines()[-1:]}")
        if self.code < 0 and self.code != -signal.SIGKILL:
            sentences.append(f"killed by signal {-self.code}")
        return sentences


@dataclass
class Verdict:
    """Counts what was tried, and keeps what did not hold."""

    name: str
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def count(self, note: str) -> None:
        """Count one more outcome of a kind."""
        self.notes[note] = self.notes.get(note, 0) + 1

    def fault(self, text: str) -> None:
        """Keep what did not hold, and say it."""
        self.wrong.append(text)
        print(f"  WRONG: {text[:2000]}", flush=True)

    def end(self) -> int:
        """Print one line; return the exit code."""
        notes = ", ".join(f"{count} {note}" for note, count in sorted(self.notes.items()))
        seconds = time.monotonic() - self.started
        print(
            f"{self.name}: {self.tried} tried, {len(self.wrong)} wrong; {notes or 'no notes'} ({seconds:.0f} s)",
            flush=True,
        )
        return 1 if self.wrong else 0


def quiet_environment(folder: Path) -> None:
    """Keep the user's own settings out of a drill, and every computation in one thread."""
    for name in [name for name in os.environ if name.startswith("ZOO_BENCH_")]:
        del os.environ[name]
    os.environ |= {
        "ZOO_BENCH_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONFAULTHANDLER": "",
    }


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Yield an empty folder, with the environment of a drill."""
    with tempfile.TemporaryDirectory(prefix="drill-") as name:
        quiet_environment(Path(name))
        yield Path(name)


def preload(folder: Path, rehearsal: Callable[[], object] | None = None) -> None:
    """Import once, in the process that is forked, what every command needs: all that a rehearsal in a fork imported."""
    import torch

    torch.set_num_threads(1)
    import zoo.methods.simcse
    import zoo.methods.whitening  # noqa: F401

    if rehearsal is None:
        return

    def rehearse() -> None:
        try:
            rehearsal()
        finally:
            (folder / "modules").write_text("\n".join(sys.modules), encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    forked(rehearse, folder)
    for name in (folder / "modules").read_text(encoding="utf-8").splitlines():
        if name not in sys.modules and "drills" not in name:
            with contextlib.suppress(BaseException):
                importlib.import_module(name)


def forked(
    work: Callable[[], object], folder: Path, *, kill_after: float | None = None, most_seconds: float = 600
) -> Ended:
    """Do the work in a fork and return its exit code; after `kill_after` seconds it is killed with SIGKILL."""
    number = len(list(folder.glob("out-*"))) if folder.is_dir() else 0
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / f"out-{number}", folder / f"err-{number}"
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_the_child(work, out, err)
    limit = most_seconds if kill_after is None else kill_after
    killed, status, used = False, 0, None
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if not killed and time.monotonic() - started > limit:
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.002)
    seconds = time.monotonic() - started
    # A child that is killed at once has written neither.
    texts = [path.read_text(encoding="utf-8", errors="replace") if path.exists() else "" for path in (out, err)]
    if killed and kill_after is None:
        texts[1] += f"\nTraceback (most recent call last): it did not end within {most_seconds} s"
    return Ended(os.waitstatus_to_exitcode(status), texts[0], texts[1], seconds, used.ru_maxrss / 1024)


def _be_the_child(work: Callable[[], object], out: Path, err: Path) -> None:
    code = 1
    try:
        for path, descriptor in ((out, 1), (err, 2)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, descriptor)
            os.close(handle)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        answer = work()
        code = answer if isinstance(answer, int) else 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def command(*words: object, checkpoint_steps: int | None = None) -> Callable[[], object]:
    """Return what runs a zoo-bench command line in this process."""

    def work() -> None:
        import functools

        from benchmark import api
        from benchmark.cli.main import main

        sys.argv = ["zoo-bench", *map(str, words)]
        if checkpoint_steps is not None:
            api.Request = functools.partial(api.Request, checkpoints={"checkpoint_steps": checkpoint_steps})  # type: ignore[assignment, misc]
        main(list(map(str, words)))

    return work


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """Write a random two-layer BERT, 16 wide, with a vocabulary of its own, so that its files are small."""

    def write() -> None:
        import torch
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

        text = (ROOT / "benchmark" / "data" / "pocket" / "sentences.txt").read_text(encoding="utf-8").lower()
        counted: dict[str, int] = {}
        for word in text.replace(".", " . ").replace(",", " , ").split():
            counted[word] = counted.get(word, 0) + 1
        words = sorted(counted, key=lambda word: (-counted[word], word))[:600]
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        letters = [mark + chr(code) for code in range(33, 127) for mark in ("", "##")]
        vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*specials, *letters, *words]))}
        tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.BertProcessing(
            ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
        )
        names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials, strict=True))
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=64,
        )  # fmt: skip
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)

    ended = forked(write, folder.parent / "making")
    assert ended.code == 0, ended.err
    return folder


def comparable(value: Any) -> Any:
    """Return a record without what two equal runs may differ in."""
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items() if k not in DIFFERING}
    return [comparable(v) for v in value] if isinstance(value, list) else value


def results_of(folder: Path) -> dict[str, Any]:
    """Return what is comparable of a results folder: every record, the scores of pairs, the fitted encoders."""
    from zoo.files import sha256_file
    from zoo.tensors import read_arrays

    contents: dict[str, Any] = {}
    for path in sorted((folder / "records").rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record.pop("sha256", None)
        (record.get("pairs") or {}).pop("sha256", None)
        contents[path.relative_to(folder).as_posix()] = comparable(record)
    for path in sorted((folder / "encoders").rglob("fit.json")):
        fit = json.loads(path.read_text(encoding="utf-8"))
        contents[path.relative_to(folder).as_posix()] = {"files": fit["files"], "training": comparable(fit["training"])}
    for path in sorted((folder / "records").rglob("*.gz")):
        arrays = read_arrays(path, sha256_file(path))
        contents[path.relative_to(folder).as_posix()] = {name: array.tolist() for name, array in arrays.items()}
    return contents


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Return where two plain values differ, by more than float32 rounds where other texts share a batch."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted(first.keys() | second.keys())
        return [line for key in keys for line in differences(first.get(key), second.get(key), f"{where}/{key}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = zip(first, second, strict=True)
        return [line for i, (a, b) in enumerate(pairs) for line in differences(a, b, f"{where}/{i}")]
    if (
        isinstance(first, float)
        and isinstance(second, float)
        and math.isclose(first, second, rel_tol=1e-5, abs_tol=1e-6)
    ):
        return []
    return [] if first == second else [f"{where}: {str(first)[:200]} and {str(second)[:200]}"]


def training_run(model: Path, out: Path, *, methods: Sequence[str] = (), sentences: int = 96) -> list[object]:
    """Return the words of a run that trains two encoders in a moment and measures four cells."""
    chosen = methods or (
        "simcse:batch_size=16:eval_every=2:train_max_length=16",
        "whitening:k=8",
    )
    return [
        "run", "--methods", ",".join(chosen), "--backbone", model, "--tasks", "pocket-pairs,pocket-words",
        "--seeds", 1, "--train-sentences", sentences, "--precision", "fp32", "--device", "cpu", "--no-controls",
        "--out", out,
    ]  # fmt: skip
