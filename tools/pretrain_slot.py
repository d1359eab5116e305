"""Pretrains a BERT in a slot of time: `python -m tools.pretrain_slot TEXT OUT`, where `tools.slot_text` wrote TEXT.

It reads the parts of the text that are there, and looks for new ones with every checkpoint. The learning rate falls by
the clock, so that a slot of any length ends with a finished model. The same command goes on after a stop. It needs
torch, numpy, safetensors, transformers and this file alone, because a machine that is lent may have no more.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Tokens of a row, and of them labelled (15 %, as BERT has it).
ROW, LABELLED = 128, 19
# Of bert-base-uncased.
CLS, SEP, MASK, VOCABULARY = 101, 102, 103, 30_522
# Held-out rows; steps before which a model is not called collapsed, because it knows only frequent words.
HELD, JUDGED = 2048, 1000
MOMENTS = ("exp_avg", "exp_avg_sq")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
# Layers, width, heads.
SHAPES = {"base": (8, 512, 8), "mini": (4, 256, 4), "tiny": (2, 64, 2)}


def attention(query: Any, key: Any, value: Any) -> Any:
    """Return attention's mixed values; written out on a CPU, where torch's kernel has a slow backward pass."""
    import torch.nn.functional as F

    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value)
    weights = (query @ key.transpose(-1, -2)).float() * query.shape[-1] ** -0.5
    return weights.softmax(-1).to(value.dtype) @ value


def forward(model: Any, ids: Any, places: Any, labels: Any) -> tuple[Any, Any]:
    """Return the mean loss and right predictions at labelled places (rows, k), as `BertForMaskedLM` computes them."""
    import torch
    import torch.nn.functional as F

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], model.config.num_attention_heads, -1).transpose(1, 2)

    parts = model.bert.embeddings
    x = parts.word_embeddings(ids) + parts.position_embeddings.weight[:ROW] + parts.token_type_embeddings.weight[0]
    x = parts.LayerNorm(x)
    for layer in model.bert.encoder.layer:
        inner = layer.attention.self
        mixed = attention(*(heads(linear(x)) for linear in (inner.query, inner.key, inner.value)))
        x = layer.attention.output.LayerNorm(x + layer.attention.output.dense(mixed.transpose(1, 2).flatten(2)))
        x = layer.output.LayerNorm(x + layer.output.dense(F.gelu(layer.intermediate.dense(x))))
    chosen = x.gather(1, places[:, :, None].expand(-1, -1, x.shape[-1])).flatten(0, 1)
    logits = model.cls.predictions(chosen).float()
    return F.cross_entropy(logits, labels.flatten()), (logits.argmax(-1) == labels.flatten()).sum()


def masked(ids: Any, weights: Any, generator: Any) -> tuple[Any, Any, Any]:
    """Return ids with 19 labelled places a row (80 % [MASK], 10 % another token, 10 % as they are), places, labels.

    Places are drawn without replacement by the weights (30,522) of their tokens: the smallest of exponential times.
    """
    import torch

    times = torch.empty(ids.shape, device=ids.device).exponential_(generator=generator) / weights[ids]
    places = times.masked_fill((ids == CLS) | (ids == SEP), torch.inf).topk(LABELLED, dim=1, largest=False).indices
    labels = ids.gather(1, places)
    kind = torch.rand(labels.shape, device=ids.device, generator=generator)
    other = torch.randint(VOCABULARY, labels.shape, device=ids.device, generator=generator)
    put = torch.where(kind < 0.8, MASK, torch.where(kind < 0.9, other, labels))
    return ids.scatter(1, places, put), places, labels


def mean_model(models: list[Any]) -> Any:
    """Return the first model with the mean of all weights: branches of one start lie in one basin (Wortsman 2022)."""
    if len({tuple(weight.shape for weight in model.parameters()) for model in models}) > 1:
        raise SystemExit("the models of --begin differ in shape; their weights have no mean.")
    for weights in zip(*(model.parameters() for model in models), strict=True):
        weights[0].data.copy_(sum(weight.data for weight in weights) / len(weights))
    return models[0]


def rate(share: float, warm: float, peak: float, constant: float) -> float:
    """Return the learning rate: it rises until `warm` is 1, and falls from `constant` to 0 at the slot's end."""
    return peak * min(1.0, warm) * min(1.0, max(0.0, (1 - share) / (1 - constant)))


class Matrix:
    """The token matrix on the device: all parts that have arrived, its rows in a new order in every pass."""

    def __init__(self, folder: Path, device: str, generator: Any, power: float) -> None:
        self.folder, self.device, self.generator, self.power = folder, device, generator, power
        self.names: list[str] = []
        self.look()

    def look(self) -> None:
        """Read the parts that are new; one that is still being copied is read at a later look."""
        import torch

        names, parts = [], []
        for path in sorted(self.folder.glob("tokens-*.npy")):
            if path.name not in self.names:
                try:
                    # Every id is below 2 ** 15, so that int16 holds it.
                    parts.append(torch.from_numpy(np.load(path).view(np.int16)).to(self.device))
                    names.append(path.name)
                except (ValueError, EOFError):
                    print(f"{path} is not whole", flush=True)
        if parts:
            if not self.names:
                self.held, parts[0] = parts[0][:HELD], parts[0][HELD:]
                self.rows = parts.pop(0)
                share = torch.bincount(self.rows[:100_000].flatten(), minlength=VOCABULARY).float()
                share[[CLS, SEP]] = 0
                share /= share.sum()
                # XLM's draw (Lample and Conneau 2019): by the inverse square root of a token's frequency.
                self.weights = share.clamp_min(1e-6) ** -self.power
                # The share of the most frequent label: what a model that learned nothing else gets right.
                drawn = share * self.weights
                self.frequent = float(drawn.max() / drawn.sum())
            self.rows = torch.cat([self.rows, *parts])
            self.names += names
            self.order, self.at = torch.empty(0, dtype=torch.int64), 0
        if not self.names:
            raise SystemExit(f"no part of {self.folder} can be read; write it again by `python -m tools.slot_text`.")

    def batch(self, rows: int) -> Any:
        """Return the next ids (rows, 128), int64."""
        import torch

        if self.at + rows > len(self.order):
            self.order = torch.randperm(len(self.rows), device=self.device, generator=self.generator)
            self.at = 0
        chosen = self.order[self.at : self.at + rows]
        self.at += rows
        return self.rows[chosen].long()


class Slot:
    """A training that ends by the clock."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        # What a slot needs at its end is looked for at its start.
        wanted = {options.text: ("tokens-00.npy", "text.json", *TOKENIZER)}
        wanted |= dict.fromkeys(options.begin or [], ("config.json", "model.safetensors"))
        missing = [
            str(folder / name) for folder, names in wanted.items() for name in names if not (folder / name).is_file()
        ]
        if missing:
            raise SystemExit(f"missing: {', '.join(missing)}; `tools.slot_text` writes a text, a slot writes a model.")
        if options.device.startswith("cuda") and not torch.cuda.is_available():
            raise SystemExit("torch sees no CUDA device here; give --device cpu.")
        self.began, self.options, self.out, self.device = time.monotonic(), options, options.out, options.device
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(options.seed)
        torch.set_float32_matmul_precision("high")
        self.generator = torch.Generator(self.device).manual_seed(options.seed)
        self.model = self.start()
        self.weights = dict(self.model.named_parameters())
        kinds = {decay: [w for w in self.weights.values() if (w.ndim > 1) == (decay > 0)] for decay in (0.01, 0.0)}
        groups = [{"params": weights, "weight_decay": decay} for decay, weights in kinds.items()]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6, fused=True)
        self.state: dict[str, Any] = {"seconds": 0.0, "step": 0, "rate": options.rate, "restarts": 0, "curve": []}
        self.forward: Callable[..., Any] = forward
        if (self.out / "state.json").is_file():
            self.resume()
        self.matrix = Matrix(options.text, self.device, self.generator, options.power)
        self.origin = self.began - self.state["seconds"]

    def start(self) -> Any:
        """Return the model that a slot begins from: new weights, or the mean of `--begin`."""
        import torch
        from transformers import BertConfig, BertForMaskedLM

        if self.options.begin:
            models = [
                BertForMaskedLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
                for folder in self.options.begin
            ]
            return mean_model(models).to(self.device)
        layers, width, heads = SHAPES[self.options.shape]
        shape: dict[str, Any] = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
        shape |= {"intermediate_size": 4 * width, "max_position_embeddings": ROW, "vocab_size": VOCABULARY}
        return BertForMaskedLM(BertConfig(**shape)).to(self.device)

    def resume(self) -> None:
        """Read the last checkpoint; its `state.json` is written last, so the weights that it names are whole."""
        import torch
        from safetensors.torch import load_file

        self.state = json.loads((self.out / "state.json").read_text())
        tensors = load_file(self.out / self.state["file"], device=self.device)
        step = torch.tensor(float(self.state["step"]), device=self.device)
        for name, weight in self.weights.items():
            weight.data.copy_(tensors[name])
            self.optimizer.state[weight] = {key: tensors[f"{key}:{name}"] for key in MOMENTS} | {"step": step.clone()}
        self.generator.manual_seed(self.options.seed + self.state["step"])

    def save(self) -> None:
        """Write a checkpoint and remove the one before it."""
        from safetensors.torch import save_file

        before, self.state["file"] = self.state.get("file"), f"state-{self.state['step']}.safetensors"
        moments = {f"{k}:{name}": self.optimizer.state[w][k] for name, w in self.weights.items() for k in MOMENTS}
        save_file({name: w.data for name, w in self.weights.items()} | moments, self.out / self.state["file"])
        self.state["seconds"] = time.monotonic() - self.origin
        (self.out / "state.new").write_text(json.dumps(self.state))
        (self.out / "state.new").replace(self.out / "state.json")
        if before not in (None, self.state["file"]):
            (self.out / str(before)).unlink(missing_ok=True)

    def loss(self, function: Callable[..., Any], ids: Any, generator: Any) -> Any:
        """Return the mean loss and the number of right predictions of a masked batch."""
        import torch

        with torch.autocast(self.device, torch.bfloat16, enabled=self.options.bf16):
            return function(self.model, *masked(ids, self.matrix.weights, generator))

    def learns(self, judged: bool) -> bool:
        """Add a point to the held-out curve, with the same masks in every call; return False for a model to give up.

        Its loss is not finite, or above that of a guess. If it is judged, its accuracy may also be that of one label.
        """
        import torch

        fixed = torch.Generator(self.device).manual_seed(0)
        rows, results = min(self.options.rows, self.options.held), []
        with torch.inference_mode():
            for first in range(0, self.options.held // rows * rows, rows):
                batch = self.matrix.held[first : first + rows].long()
                results.append(torch.stack(self.loss(forward, batch, fixed)))
        loss, right = torch.stack(results).mean(0).tolist()
        tokens = round(self.state["step"] * self.options.rows * ROW / 1e6, 1)
        point = {"seconds": round(time.monotonic() - self.origin), "step": self.state["step"], "million_tokens": tokens}
        point |= {"held_out_accuracy": right / rows / LABELLED, "held_out_loss": loss}
        self.state["curve"].append(point)
        print(json.dumps(point), flush=True)
        known = not judged or point["held_out_accuracy"] > 1.2 * self.matrix.frequent
        return bool(known and loss < 1.05 * np.log(VOCABULARY))

    def compile(self) -> None:
        """Compile the step where that works; a slot goes on without it."""
        import torch

        self.forward = torch.compile(forward)
        try:
            self.loss(self.forward, self.matrix.batch(self.options.rows), self.generator)[0].backward()
        except Exception as error:
            # The compiler raises many kinds.
            print(f"not compiled: {error}"[:500], flush=True)
            self.forward = forward

    def step(self, share: float, warm: float) -> Any:
        """Make one update at the rate of this share of the slot and of the warm-up; return the loss."""
        import torch

        for group in self.optimizer.param_groups:
            group["lr"] = rate(share, warm, self.state["rate"], self.options.constant)
        self.optimizer.zero_grad(set_to_none=True)
        loss, _ = self.loss(self.forward, self.matrix.batch(self.options.rows), self.generator)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        self.optimizer.step()
        self.state["step"] += 1
        return loss.detach()

    def restart(self) -> None:
        """Begin again at a third of the rate: a BERT that collapses early predicts only frequent words."""
        self.state["rate"] /= 3
        self.state["restarts"] += 1
        print(f"collapsed: it begins again at a rate of {self.state['rate']:g}", flush=True)
        for weight, first in zip(self.weights.values(), self.start().parameters(), strict=True):
            weight.data.copy_(first.data)
        # As they were before the first step, and not gone: the slot may end here, and a checkpoint has them.
        for moment in (value for state in self.optimizer.state.values() for value in state.values()):
            moment.zero_()

    def run(self) -> None:
        """Train to the slot's end, and write OUT/model (float16, with its facts)."""
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
        if self.options.compile:
            self.compile()
        # The warm-up begins with the first step: after a jump of the rate the model predicts only frequent words.
        first = checked = time.monotonic()
        begun = self.state["step"]
        warm_seconds, end = self.options.warm * self.options.seconds, self.origin + self.options.seconds
        while (now := time.monotonic()) < end and not stopped:
            loss = self.step(1 - (end - now) / self.options.seconds, (now - first) / warm_seconds)
            if self.state["step"] % 100 == 0:
                print(f"{now - self.origin:.0f} s, step {self.state['step']}, loss {loss.item():.3f}", flush=True)
            if now - checked > self.options.every:
                checked = now
                self.matrix.look()
                late = now - first > 2 * warm_seconds and self.state["step"] - begun >= JUDGED
                if not self.learns(judged=late):
                    self.restart()
                    first, begun = time.monotonic(), self.state["step"]
                else:
                    self.save()
        if self.state["step"]:
            self.save()
        elif self.options.seconds:
            raise SystemExit(f"no step was made in {self.options.seconds:g} s; give more --seconds.")
        if stopped:
            raise SystemExit(143)
        if not self.learns(judged=self.state["restarts"] > 0 or self.state["step"] >= JUDGED):
            raise SystemExit(f"nothing was learned at a rate of {self.state['rate']:g}; begin again at a lower --rate.")
        self.write()

    def write(self) -> None:
        """Write the model with its tokenizer and what it was made from."""
        self.model.half().save_pretrained(self.out / "model")
        for name in TOKENIZER:
            shutil.copyfile(self.options.text / name, self.out / "model" / name)
        begun = self.options.begin or []
        # A folder OUT/model is named OUT.
        names = [folder.parent.name if folder.name == "model" else folder.name for folder in begun]
        paths = [path for folder in begun if (path := folder / "pretraining.json").is_file()]
        stated = [json.loads(path.read_text()).get("ancestry", {}) for path in paths]
        lineage = {
            kind: list(dict.fromkeys([*first, *(name for ancestry in stated for name in ancestry.get(kind, []))]))
            for kind, first in (("ancestors", names), ("labelled", []))
        }
        settings = {key: str(value) for key, value in vars(self.options).items() if key not in ("out", "text")}
        settings["begin"] = " ".join(names)
        text = json.loads((self.options.text / "text.json").read_text())
        facts = {"ancestry": lineage, "text": text, "parts": self.matrix.names, "settings": settings, **self.state}
        (self.out / "model" / "pretraining.json").write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=list(SHAPES), default="base")
    parser.add_argument("--begin", type=Path, nargs="+", help="models to go on from: from the mean of their weights")
    parser.add_argument("--seconds", type=float, default=660, help="length of the slot; 0 writes what it begins from")
    parser.add_argument("--every", type=float, default=60, help="seconds between checkpoints")
    parser.add_argument("--held", type=int, default=HELD, help="held-out rows that are scored")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=512, help="rows of 128 tokens in a batch")
    parser.add_argument("--rate", type=float, default=5e-4, help="highest learning rate")
    parser.add_argument("--warm", type=float, default=0.08, help="share of the time in which the rate rises")
    parser.add_argument("--constant", type=float, default=0.5, help="share of the time after which it falls")
    parser.add_argument("--power", type=float, default=0.5, help="labels by frequency ** -power; 0: evenly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    Slot(parser.parse_args()).run()


if __name__ == "__main__":
    main()
