"""Flip one bit in any file that is read: each flip ends in the right result or in one sentence."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.drills.common import (
    ROOT,
    Verdict,
    command,
    forked,
    preload,
    tiny_bert,
    training_run,
    workplace,
)
from tools.drills.contents import differs, folder_contents, restore

TEXTS = ["A small dog runs.", "The market fell on Monday.", "rain"]


@dataclass(frozen=True)
class Kind:
    """Files of one kind, what reads them, and whether an answer that differs is no mistake."""

    name: str
    folder: Path
    files: Sequence[Path]
    read: Callable[[], Any]
    may_differ: Callable[[Any, Any], bool] = lambda wanted, content: False


def flips(count: int, seed: int, only: str | None = None) -> int:
    """Flip so many bits, each in a file as it was written, spread evenly over the kinds of files."""
    verdict = Verdict("flips")
    with workplace() as folder:
        kinds = [kind for kind in _kinds(folder) if only is None or only in kind.name]
        for number, kind in enumerate(kinds):
            share = count * (number + 1) // len(kinds) - count * number // len(kinds)
            part = Verdict(f"  {kind.name}")

            def work(kind: Kind = kind, share: int = share, part: Verdict = part, number: int = number) -> int:
                return _flip(kind, share, random.Random(1000 * seed + number), part)

            ended = forked(work, folder / "logs", most_seconds=3600)
            print(ended.out, end="", flush=True)
            verdict.tried += share
            if ended.code != 0 or ended.faults():
                verdict.wrong.append(kind.name)
                print(ended.err[-3000:], end="", flush=True)
    return verdict.end()


def _flip(kind: Kind, count: int, rng: random.Random, verdict: Verdict) -> int:
    from zoo.errors import ZooError

    kept = folder_contents(kind.folder)
    wanted = kind.read()
    if differs(wanted, kind.read()):
        verdict.fault("two readings without a flip differ")
    for _ in range(count):
        verdict.tried += 1
        path = rng.choice(kind.files)
        content = bytearray(kept[path])
        if not content:
            continue
        # Half of the flips in the first kilobytes: headers are short, and tell what the rest means.
        end = len(content)
        place = rng.randrange(min(end, 2000)) if rng.random() < 0.5 else rng.randrange(end)
        bit = rng.randrange(8)
        content[place] ^= 1 << bit
        path.write_bytes(content)
        what = f"{path.relative_to(kind.folder)}, byte {place} of {len(content)}, bit {bit}"
        try:
            read_content = kind.read()
        except ZooError as error:
            verdict.count("ended in a sentence")
            if not str(error).strip() or len(str(error).splitlines()) > 3:
                verdict.fault(f"{what}: no sentence: {error}")
        except BaseException as error:
            verdict.fault(f"{what}: {type(error).__name__}: {str(error)[:300]}")
        else:
            if not differs(wanted, read_content):
                verdict.count("right")
            elif kind.may_differ(wanted, read_content):
                verdict.count("another identity")
            else:
                verdict.fault(f"{what}: a silent wrong result")
        restore(kind.folder, kept)
    return verdict.end()


def _kinds(folder: Path) -> list[Kind]:
    """Make one of everything, and return what reads it."""
    preload(folder / "first")
    model = tiny_bert(folder / "model")
    out = folder / "results"
    words = training_run(model, out)
    preload(folder / "first", command(*training_run(model, folder / "rehearsal")))
    ended = forked(command(*words), folder / "logs")
    assert ended.code == 0, ended.err
    makers = (
        _records,
        _pack,
        _encoders,
        _export,
        _checkpoints,
        _vectors,
        _data,
        _hub_rows,
        _models,
        _hub_model,
        _views,
    )
    kinds = []
    for maker in makers:
        kind = maker(folder, out, model)
        kinds += [kind] if kind is not None else []
    return kinds


def _copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def _records(folder: Path, out: Path, model: Path) -> Kind:
    """Tables from records: a damaged record is left out and named, so that a table may lack it, never change it."""
    return _kept(_copy(out / "records", folder / "flip-records" / "records").parent, "records and pair scores")


def _pack(folder: Path, out: Path, model: Path) -> Kind:
    """The same packed: damaged records are one sentence for all."""
    from benchmark.records.pack import pack

    place = _copy(out / "records", folder / "flip-pack" / "records").parent
    pack(place)
    return _kept(place, "packed records and pair scores")


def _kept(place: Path, name: str) -> Kind:
    def read() -> Any:
        from benchmark.records.folder import Records

        store = Records(place)
        records = {record["key"]: record for record in store.all()}
        pairs = {}
        for key, record in records.items():
            from zoo.errors import CorruptError, MissingError

            try:
                predicted, gold = store.pair_scores(record)
                pairs[key] = (predicted, gold)
            except (CorruptError, MissingError):
                store.corrupt.append((place, "pairs"))
        return {"records": records, "pairs": pairs, "named": len(store.corrupt)}

    def left_out(wanted: Any, content: Any) -> bool:
        kept = all(not differs(wanted["records"][key], record) for key, record in content["records"].items())
        same = all(not differs(wanted["pairs"][key], pair) for key, pair in content["pairs"].items())
        lost = len(wanted["records"]) + len(wanted["pairs"]) - len(content["records"]) - len(content["pairs"])
        # A damaged record takes its pair scores along; a damaged sum leaves out all pair scores, each named.
        return bool(kept and same and content["named"] >= 1 and lost <= max(2, content["named"]))

    return Kind(name, place, list(folder_contents(place)), read, left_out)


def _encoders(folder: Path, out: Path, model: Path) -> Kind:
    """A trained encoder as `zoo.load` gives it, from the folder of a run."""
    source = next(path for path in (out / "encoders").iterdir() if path.name.startswith("simcse") and path.is_dir())
    place = _copy(source, folder / "flip-encoder")

    def read() -> Any:
        from zoo.api import load

        return load(place).encode(TEXTS)

    return Kind("encoders", place, list(folder_contents(place / "encoder")), read)


def _export(folder: Path, out: Path, model: Path) -> Kind:
    """An exported folder, measured again by `pretrained`."""
    from zoo.encoder import Runtime

    place = folder / "flip-export"
    source = next(path for path in (out / "encoders").iterdir() if path.name.startswith("simcse") and path.is_dir())

    def write() -> None:
        from zoo.api import load
        from zoo.formats.export import write_sentence_transformers

        write_sentence_transformers(load(source), place)

    ended = forked(write, folder / "logs")
    assert ended.code == 0, ended.err

    def read() -> Any:
        from zoo.methods.pretrained import Pretrained

        return Pretrained(Pretrained.Recipe(model=str(place)), Runtime()).encode(TEXTS)

    return Kind("exported folders", place, [p for p in folder_contents(place) if p.suffix != ".md"], read)


def _checkpoints(folder: Path, out: Path, model: Path) -> Kind:
    """A training that was stopped, and goes on."""
    place = folder / "flip-training"

    def train(stop_at: int | None) -> Any:
        import torch

        from zoo.encoder import Corpus, Run, Runtime
        from zoo.errors import Interrupted
        from zoo.methods.simcse import SimCSE

        sentences = (ROOT / "benchmark" / "data" / "pocket" / "sentences.txt").read_text(encoding="utf-8").splitlines()
        torch.manual_seed(0)
        recipe = SimCSE.Recipe(backbone=str(model), batch_size=8, eval_every=3, train_max_length=12)
        encoder = SimCSE(recipe, Runtime())
        asked = iter(range(10**9))
        run = Run(place, 0, checkpoint_steps=2, stop_signal=lambda: 15 if next(asked) == stop_at else None)
        try:
            corpus = Corpus("pocket", sentences[:96])
            report = encoder.fit(corpus, dev_score=lambda fitted: float(fitted.encode(TEXTS).std()), run=run)
        except Interrupted:
            return None
        facts = (report.steps, report.final_loss, report.best_step, dict(report.dev_scores))
        return {
            "vectors": encoder.encode(TEXTS),
            "facts": facts,
            "log": (place / "log.jsonl").read_text(encoding="utf-8"),
        }

    ended = forked(lambda: train(9), folder / "logs")
    assert ended.code == 0, ended.err
    return Kind("checkpoints", place, list(folder_contents(place)), lambda: train(None))


def _vectors(folder: Path, out: Path, model: Path) -> Kind:
    """The embedding cache: what it answers is what was kept."""
    place = folder / "flip-cache"
    texts = [f"text {i}" for i in range(50)]

    def write() -> None:
        import numpy as np

        from benchmark.run.cache import EmbeddingCache

        os.environ["ZOO_BENCH_CACHE"] = str(place)
        vectors = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
        EmbeddingCache().entry("key", None, "cpu").add(texts, vectors, np.arange(50) != 3, {"rank": 2})

    ended = forked(write, folder / "logs")
    assert ended.code == 0, ended.err

    def read() -> Any:
        from benchmark.run.cache import EmbeddingCache

        os.environ["ZOO_BENCH_CACHE"] = str(place)
        cached = EmbeddingCache(say=lambda text: None).entry("key", None, "cpu").find(texts)
        return None if cached is None else (cached.vectors, cached.covered, cached.known, cached.facts)

    def unknown(wanted: Any, content: Any) -> bool:
        if content is None:
            return True
        known = content[2]
        return bool((content[0][known] == wanted[0][known]).all() and (content[1][known] == wanted[1][known]).all())

    return Kind("embedding cache", place, list(folder_contents(place)), read, unknown)


def _data(folder: Path, out: Path, model: Path) -> Kind:
    """The bundled data sets, and any file of the catalog."""
    place = _copy(ROOT / "benchmark" / "data" / "pocket", folder / "flip-data")

    def read() -> Any:
        from benchmark.data import sources
        from benchmark.data.sources import DataSource

        vars(sources)["POCKET"] = place
        source = DataSource(None, hub=False)
        located = [source.locate(name, "plain") for name in ("pocket-pairs", "pocket-words", "pocket-text")]
        return [path.read_bytes() for one in located for path in one.files.values()]

    files = [place / name for name in ("pairs.tsv", "words.tsv", "sentences.txt")]
    return Kind("data sets", place, files, read)


def _hub_rows(folder: Path, out: Path, model: Path) -> Kind:
    """Rows of a data set as the cache keeps them from the hub."""
    place = folder / "flip-hub" / "data" / "hub-rows" / "STSBenchmark-raw"

    def write() -> None:
        import json

        from benchmark.data.catalog import dataset
        from zoo.files import sha256_file, write_signed, write_text

        rows = [[1.5, "a dog", "a cat"], [4.0, "it rains", "rain falls"]] * 20
        hashes = {}
        for split in dataset("STSBenchmark").rows:
            write_text(place / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            hashes[f"{split}.jsonl"] = sha256_file(place / f"{split}.jsonl")
        write_signed(place / "done.json", {"hub": "x", "revision": None, "files": hashes})

    ended = forked(write, folder / "logs")
    assert ended.code == 0, ended.err

    def read() -> Any:
        from benchmark.data.readers.pairs import read_hub_rows
        from benchmark.data.sources import DataSource

        located = DataSource(None, hub=False, cache=folder / "flip-hub" / "data").locate("STSBenchmark", "raw")
        pairs = [read_hub_rows(path) for path in located.files.values()]
        return [(pair.first, pair.second, pair.gold) for pair in pairs]

    return Kind("rows of the hub", place, list(folder_contents(place)), read)


def _models(folder: Path, out: Path, model: Path) -> Kind:
    """A model folder of a user, which has no checksums: another bit is another model, and its identity says so."""
    place = _copy(model, folder / "flip-model")

    def read() -> Any:
        from zoo.encoder import Runtime
        from zoo.methods.pooled import Average

        encoder = Average(Average.Recipe(backbone=str(place)), Runtime())
        return {"identity": encoder.backbone.source.sha256, "vectors": encoder.encode(TEXTS)}

    def other(wanted: Any, content: Any) -> bool:
        return bool(wanted["identity"] != content["identity"])

    return Kind("model folders", place, list(folder_contents(place)), read, other)


def _hub_model(folder: Path, out: Path, model: Path) -> Kind:
    """A model in the hub's cache, whose large files lie under their sha256."""
    import hashlib

    top = folder / "flip-hub-model"
    place, blobs = top / "snapshot", top / "blobs"
    shutil.copytree(model, place)
    blobs.mkdir()
    for path in list(place.iterdir()):
        blob = blobs / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.move(path, blob)
        path.symlink_to(blob)

    def read() -> Any:
        from zoo.encoder import Runtime
        from zoo.methods.pooled import Average

        return Average(Average.Recipe(backbone=str(place)), Runtime()).encode(TEXTS)

    return Kind("models of the hub's cache", top, list(blobs.iterdir()), read)


def _views(folder: Path, out: Path, model: Path) -> Kind:
    """Semantic-role views as the cache keeps them."""
    place = folder / "flip-views"

    def write() -> None:
        from zoo.srl.views import write_views

        write_views(place / "views.jsonl.gz", [f"He reads book {i}." for i in range(30)])

    ended = forked(write, folder / "logs")
    assert ended.code == 0, ended.err

    def read() -> Any:
        from zoo.srl.views import read_views

        return read_views(place / "views.jsonl.gz")

    return Kind("semantic roles", place, list(folder_contents(place)), read)
