"""Writes the token matrix that `tools.pretrain_slot` trains on, in parts: `python -m tools.slot_text FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from transformers import AutoTokenizer

from benchmark.data.corpora import normalised
from benchmark.data.sources import DataSource
from tools.pretrain_slot import CLS, HELD, ROW, SEP, TOKENIZER
from zoo.engine.backbone import find_backbone
from zoo.engine.model_folder import load_pretrained
from zoo.errors import ZooError
from zoo.progress import Progress
from zoo_bench_papers.pretraining.texts import clean_texts

# Bytes of a part.
PART = 96_000_000


def write_text(folder: Path, names: list[str], data: str | None) -> None:
    """Write rows (n, 128) of token ids as `tokens-NN.npy`, in a drawn order, and their facts as `text.json`.

    Repeated sentences, and those that a task tests, are left out. The first rows of part 0 are held out in training.
    """
    texts = clean_texts(names, DataSource.from_options(data, hub=False), Progress())
    tokenizer = load_pretrained(AutoTokenizer, find_backbone("zoo-small").folder)
    seen: set[bytes] = set()

    def distinct() -> Iterator[str]:
        for sentence in texts.sentences():
            key = hashlib.blake2b(normalised(sentence).encode(), digest_size=8).digest()
            if key not in seen:
                seen.add(key)
                yield sentence

    chunks, sentences = [np.empty(0, np.uint16)], distinct()
    while batch := list(islice(sentences, 50_000)):
        encoded = tokenizer(batch, add_special_tokens=False, verbose=False)["input_ids"]
        chunks.append(np.fromiter((token for ids in encoded for token in (*ids, SEP)), dtype=np.uint16))
    stream = np.concatenate(chunks)
    if len(stream) < 2 * HELD * ROW:
        raise SystemExit(f"the texts have {len(stream):,} tokens; {HELD * ROW:,} are held out, so give twice as many.")
    inner = stream[: len(stream) // (ROW - 2) * (ROW - 2)].reshape(-1, ROW - 2)
    rows = np.pad(inner, ((0, 0), (1, 1)))
    rows[:, 0], rows[:, -1] = CLS, SEP
    rows = rows[held_first(len(rows))]
    folder.mkdir(parents=True, exist_ok=True)
    for part, first in enumerate(range(0, len(rows), PART // 2 // ROW)):
        np.save(folder / f"tokens-{part:02d}.npy", rows[first : first + PART // 2 // ROW])
    facts = {
        "texts": [path.name for path in texts.paths],
        "rows": len(rows),
        "row_length": ROW,
        "sentences": len(seen),
        "excluded_sentences": len(texts.exclude),
        "sha256": hashlib.sha256(rows.tobytes()).hexdigest(),
    }
    (folder / "text.json").write_text(json.dumps(facts, indent=1))
    for name in TOKENIZER:
        shutil.copyfile(find_backbone("zoo-small").folder / name, folder / name)
    print(json.dumps(facts))


def held_first(rows: int) -> npt.NDArray[np.int64]:
    """Return an order of the rows: held-out blocks of 32 neighbours spread over the text, then the others."""
    starts = np.linspace(0, rows - 32, HELD // 32).astype(np.int64)
    held = (starts[:, None] + np.arange(32)).ravel()
    return np.concatenate([held, np.random.default_rng(0).permutation(np.setdiff1d(np.arange(rows), held))])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", action="append", help="texts of the catalog, or files (default: wiki and books)")
    parser.add_argument("--data", help="the data folder")
    options = parser.parse_args()
    try:
        write_text(options.folder, options.text or ["wiki", "books"], options.data)
    except ZooError as error:
        raise SystemExit(str(error)) from None
