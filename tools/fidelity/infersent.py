"""Runs InferSent's released script for five epochs of two steps, from weights that are a formula.

`python -m tools.fidelity.infersent CHECKOUT DUMP`, with PyTorch alone. The script itself is run: a library of its year
summed a loss where `size_average` was set, had numbers in `loss.data[0]`, and a GPU. These three are given to it.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

REPOSITORY, COMMIT = "facebookresearch/InferSent", "48fe28847b9927f22cb85e1121454336b46af860"
EPOCHS, BATCH, DIM, STATES, HIDDEN = 5, 18, 16, 6, 8
THINGS = "cat dog tree house river stone".split()
# All texts have seven words: the script's maximum over a sentence sees the zeros of padding.
PAIRS = [
    row
    for a in THINGS
    for b in THINGS[:4]
    for row in [
        (f"the {a} can be near a {b}", f"it means the {a} sees the {b}", "entailment"),
        (f"the {a} can be near a {b}", f"the {a} does not mean the {b}", "contradiction"),
    ]
]
TRAIN, HELD_OUT = PAIRS[:36], PAIRS[36:]
TEXTS = [first for first, _, _ in PAIRS[::6]] + [second for _, second, _ in PAIRS[1::7]]
WORDS = ["<s>", "</s>", *sorted({word for first, second, _ in PAIRS for word in (first + " " + second).split()})]


def drawn(*shape: int, seed: int, scale: float) -> torch.Tensor:
    """Return the same numbers everywhere."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def vectors() -> dict[str, np.ndarray]:
    """Return the vectors of all words, of GloVe's size."""
    return dict(zip(WORDS, drawn(len(WORDS), DIM, seed=1, scale=0.5).numpy(), strict=True))


def orders() -> list[np.ndarray]:
    """Return the order of the training pairs in each epoch."""
    return [np.random.default_rng(epoch).permutation(len(TRAIN)) for epoch in range(EPOCHS)]


def fill(lstm: nn.LSTM, classifier: nn.Module) -> None:
    """Put the weights of the start into a BiLSTM and its classifier."""
    with torch.no_grad():
        for i, weight in enumerate([*lstm.parameters(), *classifier.parameters()]):
            weight.copy_(drawn(*weight.shape, seed=10 + i, scale=0.4))


class SummedLoss(nn.CrossEntropyLoss):
    """The loss of the script's year: without `size_average` a sum. It notes the mean of each batch."""

    noted: list[float] = []  # noqa: RUF012

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__("reduction" if name == "size_average" else name, "sum" if name == "size_average" else value)

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = super().forward(logits, labels)
        self.noted.append(float(loss.detach()) / len(labels))
        return loss


def write_data(folder: Path) -> None:
    """Write pairs and word vectors as the script reads them."""
    for part, rows in (("train", TRAIN), ("dev", HELD_OUT), ("test", HELD_OUT)):
        for name, column in zip(("s1", "s2", "labels"), zip(*rows, strict=True), strict=True):
            (folder / f"{name}.{part}").write_text("\n".join(column) + "\n", encoding="utf-8")
    lines = [" ".join([word, *map(repr, map(float, vector))]) for word, vector in vectors().items()]
    (folder / "words.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(checkout: str, dump: str) -> None:
    """Run the script and write what it did."""
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if head.stdout.strip() != COMMIT:
        raise SystemExit(f"{checkout}: check out {COMMIT} of github.com/{REPOSITORY}.")
    place, target, permutations = Path(checkout).resolve(), Path(dump).resolve(), iter(orders())
    sys.path.insert(0, str(place))
    torch.cuda.set_device = lambda device: None
    torch.Tensor.cuda = nn.Module.cuda = lambda it: it
    inspect.getargspec = inspect.getfullargspec
    np.random.permutation = lambda count: next(permutations)
    nn.CrossEntropyLoss = SummedLoss
    kind = __import__("models").NLINet
    begin = kind.__init__

    def started(net: Any, config: dict[str, Any]) -> None:
        begin(net, config)
        fill(net.encoder.enc_lstm, net.classifier)

    kind.__init__ = started
    script = (place / "train_nli.py").read_text(encoding="utf-8").replace("loss.data[0]", "loss.data.item()")
    names: dict[str, Any] = {"round": lambda value, digits: builtins.round(float(value), digits)}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        os.chdir(folder)
        sizes = (
            f"--word_emb_dim {DIM} --enc_lstm_dim {STATES} --fc_dim {HIDDEN} --batch_size {BATCH} --n_epochs {EPOCHS}"
        )
        files = f"--nlipath {folder} --word_emb_path words.txt --encoder_type InferSent"
        sys.argv = ["train_nli.py", *files.split(), *sizes.split()]
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(script, "train_nli.py", "exec"), names)
        words = [["<s>", *text.split(), "</s>"] for text in TEXTS]
        with torch.no_grad():
            encoded = names["nli_net"].encode(names["get_batch"](words, names["word_vec"], DIM))
    facts = {"losses": SummedLoss.noted, "release": f"{REPOSITORY}@{COMMIT}"}
    save_file({"vectors": encoded}, target, {key: json.dumps(value) for key, value in facts.items()})
    print(SummedLoss.noted)


if __name__ == "__main__":
    main(*sys.argv[1:])
