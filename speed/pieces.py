"""One piece of `speed.table`, by one side: python -P speed/pieces.py WORK SIDE.

The side `ours` is the checkout that stands first on PYTHONPATH, so of the project it needs only what its last
commits have in common. After `ready`, each line of standard input makes one measurement: processor seconds of a unit.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[], object]
# The last directory entry of a search path that this script's own folder must not shadow.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]


def texts(count: int) -> list[str]:
    """Return texts of 5 to 60 words: words by Zipf's law, and one in fifty of two parts, as names and numbers are."""
    import zoo

    state = (Path(zoo.__file__).parent / "models" / "zoo-mini" / "tokenizer.json").read_text(encoding="utf-8")
    import json

    words = [word for word in json.loads(state)["model"]["vocab"] if word.isalpha() and word.isascii()]
    draw = random.Random(0)
    weights = [1 / (rank + 5) for rank in range(len(words))]
    result = []
    for _ in range(count):
        chosen = draw.choices(words, weights, k=min(60, max(5, round(draw.lognormvariate(2.9, 0.5)))))
        parts = [word + draw.choice(words) if draw.random() < 0.02 else word for word in chosen]
        result.append(" ".join(parts).capitalize() + ".")
    return result


def model(folder: str, *, base: bool) -> str:
    """Write random weights of BERT-base's shape, or of 6 layers of 384, as a sentence-transformers folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    from zoo.encoder import Runtime
    from zoo.engine.backbone import Backbone

    torch.manual_seed(0)
    tokenizer = Backbone.load("zoo-mini", None, Runtime()).tokenizer
    shape: dict[str, Any] = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
    config = BertConfig(vocab_size=len(tokenizer), **({} if base else shape))
    BertModel(config).save_pretrained(f"{folder}/plain")
    tokenizer.save_pretrained(f"{folder}/plain")
    transformer = Transformer(f"{folder}/plain", max_seq_length=128)
    pooling = Pooling(config.hidden_size, "mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(f"{folder}/model")
    return f"{folder}/model"


def encoding(folder: str, side: str, some: list[str], precision: str, *, base: bool, repeats: int = 1) -> Work:
    """Encode texts by one of four sides, `repeats` times."""
    import torch

    place = model(folder, base=base)
    if side == "ours":
        from zoo.encoder import Runtime
        from zoo.methods.pretrained import Pretrained

        encode: Callable[[list[str]], Any] = Pretrained(
            Pretrained.Recipe(model=place), Runtime(precision=precision)
        ).encode
    elif side == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        peer = SentenceTransformer(place, device="cpu", model_kwargs={"dtype": dtype})

        def encode(part: list[str]) -> Any:
            return peer.encode(part, show_progress_bar=False)
    else:
        encode = by_onnx(folder, place)
    return lambda: [encode(some) for _ in range(repeats)]


def by_onnx(folder: str, place: str) -> Callable[[list[str]], Any]:
    """Return mean pooling by onnxruntime, one thread, float32."""
    import onnxruntime
    import torch
    from transformers import AutoTokenizer, BertModel

    class States(torch.nn.Module):
        """The last layer alone, called by names: the library takes no places under a tracer."""

        def __init__(self) -> None:
            super().__init__()
            self.network = BertModel.from_pretrained(place, attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.network(input_ids=ids, attention_mask=mask).last_hidden_state
            return states

    tokenizer = AutoTokenizer.from_pretrained(place)
    example = tokenizer(["a small dog", "a"], return_tensors="pt", padding=True)
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "rows", 1: "tokens"} for name in (*names, "states")}
    torch.onnx.export(
        States().eval(), tuple(example[name] for name in names), f"{folder}/model.onnx", dynamo=False,
        input_names=names, output_names=["states"], dynamic_axes=axes, opset_version=17,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)

    def encode(part: list[str]) -> Any:
        batch = tokenizer(part, return_tensors="np", padding=True, truncation=True, max_length=128)
        (states,) = session.run(["states"], {name: batch[name] for name in names})
        mask = batch["attention_mask"][..., None]
        return (states * mask).sum(1) / mask.sum(1)

    return encode


def training(method: str, precision: str, steps: int = 2) -> Work:
    """Train steps of batches of 64."""
    from zoo.api import create
    from zoo.encoder import Corpus, Run, Runtime

    encoder = create(method)
    corpus = Corpus("speed", texts(64 * steps))

    def fit() -> None:
        type(encoder)(encoder.recipe, Runtime(precision=precision)).fit(corpus, run=Run(seed=0))

    return fit


def tokenising(side: str, some: list[str]) -> Work:
    """Tokenise texts that nobody has seen."""
    from zoo.encoder import Runtime
    from zoo.engine import tokens
    from zoo.engine.backbone import Backbone

    backbone = Backbone.load("zoo-mini", None, Runtime())
    if side == "transformers":
        library = backbone.tokenizer
        return lambda: library(some, truncation=True, max_length=128)["input_ids"]

    def work() -> None:
        tokens.MEMORY.forget()
        tokens.tokenise(backbone.reader, some, max_length=128)

    return work


def static(side: str, calls: list[list[str]]) -> Work:
    """Encode by token vectors alone."""
    if side == "ours":
        from zoo.api import create
        from zoo.engine import tokens

        encode: Callable[[list[str]], Any] = create("static-avg").encode
    else:
        import numpy as np
        from model2vec import StaticModel

        from zoo.encoder import Runtime
        from zoo.engine.backbone import Backbone

        backbone = Backbone.load("zoo-mini", None, Runtime())
        table = backbone.token_vectors.float().numpy()
        encode = StaticModel(np.ascontiguousarray(table), backbone.tokenizer.backend_tokenizer).encode

    def work() -> None:
        if side == "ours":
            tokens.MEMORY.forget()
            encode(["a"])
        for call in calls:
            encode(call)

    return work


def command(folder: str, *arguments: str) -> Work:
    """Run a command of the checkout."""
    import zoo

    tree = Path(zoo.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(tree), "ZOO_BENCH_CACHE": f"{folder}/cache"}
    given = [part.format(folder=folder, tree=tree) for part in arguments]
    return lambda: subprocess.run(
        [sys.executable, "-P", "-m", "benchmark", *given], env=environment, cwd=tree, check=True, capture_output=True
    )


def drawn(what: str, *sizes: int) -> Work:
    """Rank drawn tables, or search among drawn vectors."""
    from speed import growth

    of: dict[str, Callable[..., object]] = {"others": growth.of_others, "search": growth.of_search}
    return lambda: of[what](*sizes)


def products(queries: int, documents: int, dim: int = 384) -> Work:
    """Multiply vectors in float32, the least that a search needs."""
    import numpy as np

    generator = np.random.default_rng(0)
    first, second = (generator.normal(size=(rows, dim)).astype(np.float32) for rows in (queries, documents))
    return lambda: first @ second.T


ENCODERS, NARROW = ("sentence-transformers", "onnxruntime"), ("sentence-transformers",)
# Of each work: what it is, its units, how a side makes it, and the peers.
WORKS: dict[str, tuple[str, int, Callable[[str, str], Work], tuple[str, ...]]] = {
    "query-base-fp32": ("query alone, BERT-base's shape, fp32", 8,
        lambda folder, side: encoding(folder, side, texts(1), "fp32", base=True, repeats=8), ENCODERS),
    "query-base-bf16": ("query alone, BERT-base's shape, bf16", 8,
        lambda folder, side: encoding(folder, side, texts(1), "bf16", base=True, repeats=8), NARROW),
    "query-small-fp32": ("query alone, 6 x 384, fp32", 20,
        lambda folder, side: encoding(folder, side, texts(1), "fp32", base=False, repeats=20), ENCODERS),
    "eight-base-fp32": ("8 texts, BERT-base's shape, fp32", 3,
        lambda folder, side: encoding(folder, side, texts(8), "fp32", base=True, repeats=3), ENCODERS),
    "simcse-fp32": ("step of simcse, fp32", 2, lambda folder, side: training("simcse", "fp32"), ()),
    "ptbert-fp32": ("step of ptbert, fp32", 2, lambda folder, side: training("ptbert", "fp32"), ()),
    "simcse-bf16": ("step of simcse, bf16", 2, lambda folder, side: training("simcse", "bf16"), ()),
    "encode-bf16": ("encoding 300 texts, 6 x 384, bf16", 1,
        lambda folder, side: encoding(folder, side, texts(300), "bf16", base=False), NARROW),
    "tokenise": ("tokenising 5,000 texts", 1, lambda folder, side: tokenising(side, texts(5000)), ("transformers",)),
    "static": ("static-avg, 5,000 texts", 1, lambda folder, side: static(side, [texts(5000)]), ("model2vec",)),
    "static-query": ("static-avg, a query", 500,
        lambda folder, side: static(side, [[text] for text in texts(500)]), ("model2vec",)),
    "others": ("others, 400 x 60", 1, lambda folder, side: drawn("others", 400, 60), ()),
    "search": ("search, a query of 100 among 20,000", 100,
        lambda folder, side: drawn("search", 100, 20_000) if side == "ours" else products(100, 20_000), ("product",)),
    "tables": ("leaderboard of zoo-mini's records, warm", 1, lambda folder, side: command(
        folder, "leaderboard", "--results", "{tree}/leaderboards/zoo-mini", "--out", "{folder}/tables"), ()),
    "dry-run": ("run --dry-run of all recipes", 1, lambda folder, side: command(
        folder, "run", "--methods", "*", "--tasks", "pocket-pairs", "--dry-run", "--results", "{folder}/results"), ()),
    "help": ("leaderboard --help", 1, lambda folder, side: command(folder, "leaderboard", "--help"), ()),
}  # fmt: skip


def seconds() -> float:
    """Return processor seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def main() -> None:
    """Measure until standard input ends."""
    import torch

    torch.set_num_threads(1)
    _, units, make, _ = WORKS[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        work = make(folder, sys.argv[2])
        work()
        print("ready", flush=True)
        for _ in sys.stdin:
            before = seconds()
            work()
            print((seconds() - before) / units, flush=True)


if __name__ == "__main__":
    main()
