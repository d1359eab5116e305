"""The files that the project itself writes, as others may have left them: signed again, so that they are read."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.torture.common import forked, tiny_bert
from tests.torture.mutate import as_json, as_json_lines

if TYPE_CHECKING:
    from tests.torture.readers import Reader

TEXTS = ["A small dog runs.", "rain"]


def signed(value: Any) -> bytes:
    """A JSON object with the sha256 of all the rest, as the project writes it."""
    from zoo.files import sha256_json

    if not isinstance(value, dict):
        return as_json(value)
    rest = {key: one for key, one in value.items() if key != "sha256"}
    return as_json({**rest, "sha256": sha256_json(rest)})


def _made(write: Callable[[], object], folder: Path) -> None:
    ended = forked(write, folder / "logs")
    assert ended.code == 0, ended.err


def own_files(folder: Path) -> Iterator[Reader]:
    """Yield what reads records, packs, checkpoints, encoders, model folders and what the cache keeps."""
    yield from _records(folder)
    yield from _small(folder)
    yield from _models(folder)
    yield _checkpoint(folder)


def _records(folder: Path) -> Iterator[Reader]:
    import numpy as np

    from benchmark.records.folder import Records
    from benchmark.records.query import label
    from benchmark.records.record import main_score, parse_record
    from tests.torture.readers import Reader
    from zoo.files import read_arrays, sha256_file

    make_record = importlib.import_module("tests.benchmark.fakes").make_record
    place = folder / "kept" / "records"
    store = Records(place)
    gold = np.round(np.random.default_rng(0).uniform(0, 5, 20), 1)
    for seed in range(2):
        store.write(make_record("one", "SICK-R-regressor", seed, main=0.5), (gold + seed, gold))
    path = next(place.rglob("*.json"))
    value = json.loads(path.read_bytes())

    def record(path: Path) -> Any:
        found = parse_record(path.read_bytes(), str(path))
        return label([found]), main_score(found) if found["status"] == "ok" else None

    yield Reader("record", "record.json", path.read_bytes(), record, value=value, make=signed)
    arrays = next(place.rglob("*.gz"))
    yield Reader(
        "pair scores", "scores.safetensors.gz", arrays.read_bytes(), lambda path: read_arrays(path, sha256_file(path))
    )


def _small(folder: Path) -> Iterator[Reader]:
    import numpy as np

    from benchmark.run.cache import EmbeddingCache
    from benchmark.run.fit import read_fit
    from tests.torture.readers import Reader
    from zoo.srl.views import read_views, write_views

    fit = {"files": {"recipe.json": "0" * 64}, "training": {"steps": 3}}
    yield Reader("fit.json", "fit.json", signed(fit), lambda path: read_fit(path.parent), value=fit, make=signed)
    write_views(folder / "kept" / "views.jsonl.gz", ["He reads.", "She runs."])

    def views(value: Any) -> bytes:
        import hashlib

        body = as_json_lines(value)
        return gzip.compress(as_json({"sha256": hashlib.sha256(body).hexdigest()}) + b"\n" + body)

    yield Reader(
        "semantic roles", "views.jsonl.gz", (folder / "kept" / "views.jsonl.gz").read_bytes(), read_views,
        lambda answer: None if all(isinstance(view, str) for view in answer) else "a view that is no text",
        ["He reads.", "She runs."], views,
    )  # fmt: skip

    place = folder / "kept" / "cache"
    os.environ["ZOO_BENCH_CACHE"] = str(place)
    texts = [f"text {i}" for i in range(6)]
    EmbeddingCache().entry("key", None, "cpu").add(
        texts, np.ones((6, 4), np.float32), np.ones(6, np.bool_), {"rank": 2}
    )
    segment = next(path for path in place.rglob("*") if path.is_file())
    good = segment.read_bytes()

    def cached(path: Path) -> Any:
        os.environ["ZOO_BENCH_CACHE"] = str(place)
        for left in segment.parent.iterdir():
            left.unlink()
        shutil.copyfile(path, segment)
        return EmbeddingCache(say=lambda text: None).entry("key", None, "cpu").find(texts)

    yield Reader("embedding cache", "segment.safetensors", good, cached)


def _models(folder: Path) -> Iterator[Reader]:
    from tests.torture.readers import Reader
    from zoo.encoder import Runtime
    from zoo.saved import load

    model = tiny_bert(folder / "kept" / "model")
    random, trained, exported = (folder / "kept" / name for name in ("random", "trained", "exported"))

    def write() -> None:
        from zoo.formats.export import write_sentence_transformers
        from zoo.methods.pooled import Average
        from zoo.methods.randomvectors import RandomVectors
        from zoo.saved import save

        save(RandomVectors(RandomVectors.Recipe(), Runtime()), random)
        average = Average(Average.Recipe(backbone=str(model)), Runtime())
        save(average, trained)
        write_sentence_transformers(average, exported)

    _made(write, folder)

    def encoder(place: Path, name: str) -> Callable[[Path], Any]:
        def read(path: Path) -> Any:
            said = json.loads((place / "method.json").read_bytes())
            said.pop("files", None)  # the reader itself is to be met, not the checksum before it
            if name != "method.json":
                (place / "method.json").write_bytes(as_json(said))
            kept = (place / name).read_bytes()
            shutil.copyfile(path, place / name)
            try:
                return _measured(load(place).encode(TEXTS))
            finally:
                (place / name).write_bytes(kept)

        return read

    for place, kind, names in (
        (random, "random", ("method.json", "recipe.json", "seed.json")),
        (trained, "average", ("recipe.json", "backbone.json")),
    ):
        for name in names:
            good = (place / name).read_bytes()
            yield Reader(
                f"encoder {kind}, {name}", name, good, encoder(place, name), _right_vectors, value=json.loads(good),
                slow=kind != "random",
            )  # fmt: skip

    def pretrained(name: str) -> Callable[[Path], Any]:
        def read(path: Path) -> Any:
            from zoo.methods.pretrained import Pretrained

            kept = (exported / name).read_bytes()
            shutil.copyfile(path, exported / name)
            (exported / "SHA256SUMS").unlink(missing_ok=True)
            try:
                return _measured(Pretrained(Pretrained.Recipe(model=str(exported)), Runtime()).encode(TEXTS))
            finally:
                (exported / name).write_bytes(kept)

        return read

    for path in (one for one in sorted(exported.rglob("*")) if one.suffix in (".json", ".safetensors")):
        name, good = path.relative_to(exported).as_posix(), path.read_bytes()
        value = json.loads(good) if path.suffix == ".json" and len(good) < 5000 else None
        yield Reader(f"model folder, {name}", path.name, good, pretrained(name), _right_vectors, value, slow=True)


def _measured(vectors: Any) -> Any:
    """Return vectors as a run takes them: weights that are not finite end in its sentence."""
    from zoo.conformance import check_vectors

    check_vectors(vectors, TEXTS, vectors.shape[1], "the encoder")
    return vectors


def _right_vectors(answer: Any) -> str | None:
    import numpy as np

    return None if len(answer) == len(TEXTS) and np.isfinite(answer).all() else "vectors that are none"


def _written(key: str) -> str:
    return key.encode("utf-8", "replace").decode()  # a header has no lone surrogates


def _checkpoint(folder: Path) -> Reader:
    """A checkpoint whose facts, groups, numbers and schedule are changed and signed again."""
    import numpy as np
    import torch

    from tests.torture.readers import Reader
    from zoo.encoder import Run, Runtime
    from zoo.files import read_tensors, write_tensors
    from zoo.training.loop import Objective, train
    from zoo.training.settings import TrainSettings

    class Regression(Objective):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, *collated: Any, **_: Any) -> torch.Tensor:
            x, y = collated
            return ((self.layer(x) - y) ** 2).mean()

    x, y = torch.ones(8, 3), torch.ones(8, 2)
    settings = TrainSettings(batch_size=4, learning_rate=0.1, epochs=2, eval_every=2, log_every=1)

    def fit(place: Path, stop_at: int | None) -> Any:
        from zoo.errors import Interrupted

        objective = Regression()
        asked = iter(range(10**9))
        run = Run(place, 0, checkpoint_steps=1, stop_signal=lambda: 15 if next(asked) == stop_at else None)
        try:
            return train(
                objective, lambda rows: (x[rows], y[rows]), 8, settings, runtime=Runtime(), run=run,
                backbone=objective.layer, dev_score=lambda: 1.0,
            )  # fmt: skip
        except Interrupted:
            return None

    place = folder / "kept" / "training"
    _made(lambda: fit(place, 3), folder)
    tensors, metadata = read_tensors(place / "checkpoint.safetensors", unsigned=False)
    value = {key: json.loads(text) for key, text in metadata.items()}
    kept = {path.name: path.read_bytes() for path in place.iterdir()}

    def make(changed: Any) -> bytes:
        said = changed if isinstance(changed, dict) else {"facts": changed}
        file = folder / "kept" / "made.safetensors"
        write_tensors(file, tensors, {_written(key): json.dumps(one) for key, one in said.items()})
        return file.read_bytes()

    def read(path: Path) -> Any:
        for left in place.iterdir():
            left.unlink()
        for name, content in kept.items():
            if "before" not in name:
                (place / name).write_bytes(content)
        shutil.copyfile(path, place / "checkpoint.safetensors")
        return dataclasses.asdict(fit(place, None))

    def right(answer: Any) -> str | None:
        return None if np.isfinite(answer["final_loss"]) else "a loss that is not finite"

    return Reader(
        "checkpoint", "checkpoint.safetensors", kept["checkpoint.safetensors"], read, right, value, make, True
    )
