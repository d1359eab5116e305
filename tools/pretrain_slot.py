"""Pretrains a BERT in a slot of time: `python -m tools.pretrain_slot text FOLDER`, then `... train FOLDER OUT`.

`text` writes the token matrix once, in parts. `train` reads the parts that are there, and looks for new ones with every
checkpoint. The learning rate falls by the clock, so that a slot of any length ends with a finished model. `train` needs
torch, numpy, safetensors, transformers and this file alone, because a machine that is lent may have no more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

ROW, LABELLED, PART = 128, 25, 96_000_000  # tokens of a row, of them labelled, bytes of a part
CLS, SEP, MASK, VOCABULARY = 101, 102, 103, 30_522  # of bert-base-uncased
HELD, EVERY = 2048, 6  # held-out rows, seconds between checkpoints
SHAPES = {"base": (8, 512, 8), "mini": (4, 256, 4), "tiny": (2, 64, 2)}  # layers, width, heads


def write_text(folder: Path, names: list[str], data: str | None) -> None:
    """Write rows (n, 128) of token ids as `tokens-NN.npy`, in a drawn order, and their facts as `text.json`.

    Repeated sentences, and those that a task tests, are left out. The first rows of part 0 are held out in training.
    """
    from transformers import AutoTokenizer

    from benchmark.data.corpora import normalised
    from benchmark.data.sources import DataSource
    from benchmark.pretraining.texts import clean_texts
    from zoo.engine.backbone import find_backbone
    from zoo.engine.model_folder import load_pretrained
    from zoo.progress import Progress

    texts = clean_texts(names, DataSource.from_options(data, hub=False), Progress())
    tokenizer = load_pretrained(AutoTokenizer, find_backbone("zoo-small").folder)
    seen: set[bytes] = set()

    def distinct() -> Iterator[str]:
        for sentence in texts.sentences():
            key = hashlib.blake2b(normalised(sentence).encode(), digest_size=8).digest()
            if key not in seen:
                seen.add(key)
                yield sentence

    chunks, sentences = [], distinct()
    while some := list(islice(sentences, 50_000)):
        ids = tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]
        chunks.append(np.fromiter((t for one in ids for t in (*one, SEP)), dtype=np.uint16))
    stream = np.concatenate(chunks)
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
    print(json.dumps(facts))


def held_first(rows: int) -> Any:
    """Return an order of the rows: blocks of 32 neighbours spread over the text, which are held out, then the others.

    Few of the blocks' rows share an article with training rows. All parts are then alike.
    """
    starts = np.linspace(0, rows - 32, HELD // 32).astype(np.int64)
    held = (starts[:, None] + np.arange(32)).ravel()
    return np.concatenate([held, np.random.default_rng(0).permutation(np.setdiff1d(np.arange(rows), held))])


def forward(model: Any, ids: Any, places: Any, labels: Any) -> tuple[Any, Any]:
    """Return the mean loss and the number of right predictions at the labelled places (rows, k) of ids (rows, 128).

    The same computation as `BertForMaskedLM` without padding and dropout; its shapes are fixed, so that it compiles.
    """
    import torch
    import torch.nn.functional as F

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (model.config.num_attention_heads, -1)).transpose(1, 2)

    parts = model.bert.embeddings
    x = parts.word_embeddings(ids) + parts.position_embeddings.weight[:ROW] + parts.token_type_embeddings.weight[0]
    x = parts.LayerNorm(x)
    for layer in model.bert.encoder.layer:
        own = layer.attention.self
        mixed = F.scaled_dot_product_attention(*(heads(linear(x)) for linear in (own.query, own.key, own.value)))
        x = layer.attention.output.LayerNorm(x + layer.attention.output.dense(mixed.transpose(1, 2).flatten(2)))
        x = layer.output.LayerNorm(x + layer.output.dense(F.gelu(layer.intermediate.dense(x))))
    chosen = x.gather(1, places[:, :, None].expand(-1, -1, x.shape[-1])).flatten(0, 1)
    logits = model.cls.predictions(chosen).float()
    return F.cross_entropy(logits, labels.flatten()), (logits.argmax(-1) == labels.flatten()).sum()


def masked(ids: Any, generator: Any) -> tuple[Any, Any, Any]:
    """Return ids with 25 labelled places a row (80 % [MASK], 10 % another token, 10 % as they are), places, labels."""
    import torch

    noise = torch.rand(ids.shape, device=ids.device, generator=generator)
    places = noise.masked_fill((ids == CLS) | (ids == SEP), -1).topk(LABELLED, dim=1).indices
    labels = ids.gather(1, places)
    kind = torch.rand(labels.shape, device=ids.device, generator=generator)
    other = torch.randint(VOCABULARY, labels.shape, device=ids.device, generator=generator)
    put = torch.where(kind < 0.8, MASK, torch.where(kind < 0.9, other, labels))
    return ids.scatter(1, places, put), places, labels


def rate(share: float, peak: float, warm: float, constant: float) -> float:
    """Return the learning rate at a share of the slot's time: up until `warm`, constant, then down to 0 at 1."""
    if share < warm:
        return peak * share / warm
    return peak * min(1.0, max(0.0, (1 - share) / (1 - constant)))


class Matrix:
    """The token matrix on the device: all parts that have arrived, its rows in a new order in every pass."""

    def __init__(self, folder: Path, device: str, generator: Any) -> None:
        self.folder, self.device, self.generator = folder, device, generator
        self.names: list[str] = []
        self.look()

    def look(self) -> None:
        """Read the parts that are new."""
        import torch

        new = [path for path in sorted(self.folder.glob("tokens-*.npy")) if path.name not in self.names]
        if new:
            parts = [torch.from_numpy(np.load(path).view(np.int16)).to(self.device) for path in new]
            if not self.names:
                self.held, parts[0] = parts[0][:HELD].int() & 0xFFFF, parts[0][HELD:]
                self.rows = parts.pop(0)
            self.rows = torch.cat([self.rows, *parts])
            self.names += [path.name for path in new]
            self.order, self.at = torch.empty(0, dtype=torch.int64), 0

    def batch(self, rows: int) -> Any:
        """Return the next ids (rows, 128), int64."""
        import torch

        if self.at + rows > len(self.order):
            self.order = torch.randperm(len(self.rows), device=self.device, generator=self.generator)
            self.at = 0
        chosen = self.order[self.at : self.at + rows]
        self.at += rows
        return self.rows[chosen].long() & 0xFFFF


def train(options: argparse.Namespace) -> None:
    """Train for `--seconds`, all calls on the same OUT counted, and write OUT/model (float16) and OUT/curve.json."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import BertConfig, BertForMaskedLM

    began, out, device = time.monotonic(), options.out, options.device
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    generator = torch.Generator(device).manual_seed(options.seed)
    layers, width, heads = SHAPES[options.shape]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=options.positions,
    )
    model = BertForMaskedLM(config)
    if options.begin is not None:
        model = BertForMaskedLM.from_pretrained(options.begin, dtype=torch.float32, trust_remote_code=False)
    model = model.to(device)
    weights = dict(model.named_parameters())
    decayed = [weight for weight in weights.values() if weight.ndim > 1]
    plain = [weight for weight in weights.values() if weight.ndim < 2]
    groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6, fused=True)
    seen: dict[str, Any] = {"seconds": 0.0, "step": 0, "curve": []}
    if (out / "state.json").is_file():  # written last: the checkpoint beside it is whole
        seen = json.loads((out / "state.json").read_text())
        kept = load_file(out / seen["file"], device=device)
        for name, weight in weights.items():
            weight.data.copy_(kept[name])
            moments = {key: kept[f"{key}:{name}"] for key in ("exp_avg", "exp_avg_sq")}
            optimizer.state[weight] = {**moments, "step": torch.tensor(float(seen["step"]), device=device)}
        generator.manual_seed(options.seed + seen["step"])
    matrix = Matrix(options.text, device, generator)
    used = began - seen["seconds"]  # the moment at which an unbroken slot would have begun
    function: Callable[..., Any] = forward

    def computed(function: Callable[..., Any], *batch: Any) -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=options.bf16):
            return function(model, *batch)

    def save() -> None:
        moments = {
            f"{key}:{name}": optimizer.state[weight][key]
            for name, weight in weights.items()
            for key in ("exp_avg", "exp_avg_sq")
        }
        last, seen["file"] = seen.get("file"), f"state-{seen['step']}.safetensors"
        save_file({**{name: weight.data for name, weight in weights.items()}, **moments}, out / seen["file"])
        seen["seconds"] = time.monotonic() - used
        (out / "state.new").write_text(json.dumps(seen))
        (out / "state.new").replace(out / "state.json")
        if last not in (None, seen["file"]):
            (out / last).unlink(missing_ok=True)

    def held_out() -> None:
        fixed, rows, results = torch.Generator(device).manual_seed(0), min(options.rows, len(matrix.held)), []
        with torch.inference_mode():
            for first in range(0, len(matrix.held) // rows * rows, rows):
                results.append(torch.stack(computed(forward, *masked(matrix.held[first : first + rows].long(), fixed))))
        loss, right = (float(value) for value in torch.stack(results).mean(0))
        seen["curve"].append(
            {
                "seconds": round(time.monotonic() - used),
                "step": seen["step"],
                "million_tokens": round(seen["step"] * options.rows * ROW / 1e6, 1),
                "rows": len(matrix.rows),
                "held_out_accuracy": right / rows / LABELLED,
                "held_out_loss": loss,
            }
        )
        print(json.dumps(seen["curve"][-1]), flush=True)

    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    if device == "cuda":
        function = torch.compile(forward)
        try:
            computed(function, *masked(matrix.batch(options.rows), generator))[0].backward()
        except Exception as error:  # the compiler raises many kinds: the slot goes on without it
            print(f"not compiled: {error}"[:500], flush=True)
            function = forward
    checked = time.monotonic()
    while (share := (time.monotonic() - used) / options.seconds) < 1 and not stopped:
        for group in optimizer.param_groups:
            group["lr"] = rate(share, options.rate, options.warm, options.constant)
        optimizer.zero_grad(set_to_none=True)
        loss, _ = computed(function, *masked(matrix.batch(options.rows), generator))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        seen["step"] += 1
        if seen["step"] % 20 == 0 and not np.isfinite(loss.item()):
            raise SystemExit(f"the loss is {loss.item()} at step {seen['step']}; begin again with a lower --rate.")
        if seen["step"] % 200 == 0:
            print(f"{time.monotonic() - used:.0f} s, step {seen['step']}, loss {loss.item():.3f}", flush=True)
        if time.monotonic() - checked > EVERY:
            checked = time.monotonic()
            matrix.look()
            held_out()
            save()
    save()
    if stopped:
        raise SystemExit(143)
    held_out()
    model.half().save_pretrained(out / "model")
    facts = json.loads((options.text / "text.json").read_text())
    settings = {
        name: value if value is None or isinstance(value, int | float | str) else str(value)
        for name, value in vars(options).items()
        if name not in ("out", "text", "run")
    }
    (out / "curve.json").write_text(
        json.dumps({"text": facts, "settings": settings, "parts": matrix.names, **seen}, indent=1)
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("text", help="write the token matrix")
    made.add_argument("folder", type=Path)
    made.add_argument("--text", action="append", help="texts of the catalog, or files (default: wiki and books)")
    made.add_argument("--data", help="the data folder")
    made.set_defaults(run=lambda options: write_text(options.folder, options.text or ["wiki", "books"], options.data))
    slot = commands.add_parser("train", help="train for a number of seconds")
    slot.add_argument("text", type=Path)
    slot.add_argument("out", type=Path)
    slot.add_argument("--shape", choices=list(SHAPES), default="base")
    slot.add_argument("--begin", type=Path, help="a model folder to go on from")
    slot.add_argument("--seconds", type=float, default=660)
    slot.add_argument("--device", default="cuda")
    slot.add_argument("--rows", type=int, default=1024, help="rows of 128 tokens in a batch")
    slot.add_argument("--rate", type=float, default=7e-4, help="highest learning rate")
    slot.add_argument("--warm", type=float, default=0.06, help="share of the time in which the rate rises")
    slot.add_argument("--constant", type=float, default=0.5, help="share of the time after which it falls")
    slot.add_argument("--weight-decay", type=float, default=0.01)
    slot.add_argument("--positions", type=int, default=ROW)
    slot.add_argument("--seed", type=int, default=0)
    slot.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    slot.set_defaults(run=train)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
