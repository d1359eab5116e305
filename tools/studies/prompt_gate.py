"""From which accuracy on does a prompt beat an average? `python -m tools.studies.prompt_gate DATA PLOT FOLDER...`.

Each folder is a masked language model whose rows are in leaderboards/zoo-mini-pieces. Accuracy is the share of masked
tokens that it guesses: 15 % of the tokens of 4,000 sentences of STS12-16, on which none of them was trained. The draw
is uniform and the same for all, unlike those of their pretraining.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmark.data.sources import DataSource
from benchmark.tasks.loaded import load_tasks
from tools.figures import Figures, table_of

SHARE, SENTENCES = 0.15, 4_000
TABLE = table_of("zoo-mini-pieces", "sts")
PAIRS = {
    "prompt less avg-last": ("prompt", "avg-last"),
    "prompt-repo less avg-last": ("prompt-repo", "avg-last"),
    "promptbert-repo less simcse": ("promptbert-repo:looks=4", "simcse:looks=4"),
}


def sentences(data: str) -> list[str]:
    """Return the same sentences of STS12-16 in every call."""
    tasks = load_tasks([f"STS{year}" for year in range(12, 17)], DataSource.from_options(data), None)
    texts = sorted({text for task in tasks if task.data is not None for text in task.data.texts()})
    return [texts[place] for place in np.random.default_rng(0).permutation(len(texts))[:SENTENCES]]


def accuracy(folder: str, texts: list[str]) -> float:
    """Return the share of masked tokens that a model guesses."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    generator, right, count = np.random.default_rng(1), 0, 0
    with torch.inference_mode():
        for first in range(0, len(texts), 64):
            batch = tokenizer(texts[first : first + 64], padding=True, truncation=True, return_tensors="pt")
            ids = batch["input_ids"]
            drawn = torch.from_numpy(generator.random(ids.shape) < SHARE)
            drawn &= ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
            batch["input_ids"] = ids.masked_fill(drawn, tokenizer.mask_token_id)
            right += int((model(**batch).logits.argmax(-1) == ids)[drawn].sum())
            count += int(drawn.sum())
    return right / count


def draw(accuracies: dict[str, float], path: str) -> None:
    """Plot each difference with its interval over the accuracy of its backbone."""
    from matplotlib.figure import Figure

    names = {label: [(f"{a} [{x}]", f"{b} [{x}]") for x in accuracies] for label, (a, b) in PAIRS.items()}
    lines = "\n".join(f"{a} {b}" for pairs in names.values() for a, b in pairs)
    figures = Figures([f"<!-- made: comparisons {TABLE[0]} sts\n{lines}\n--><!-- end -->"])
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color="0.6", linewidth=0.8)
    for place, (label, pairs) in enumerate(names.items()):
        differences = [figures.difference(TABLE, a, b) for a, b in pairs]
        x = [100 * share + 0.03 * (place - 1) for share in accuracies.values()]
        errors = [[of.value - of.low for of in differences], [of.high - of.value for of in differences]]
        axes.errorbar(x, [of.value for of in differences], errors, fmt="osD"[place], capsize=3, label=label)
    axes.set_title("Prompts on four label-free models, STS average")
    axes.set_xlabel("Masked tokens guessed, %")
    axes.set_ylabel("Difference, points of Spearman x100, 95 %")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    texts = sentences(sys.argv[1])
    accuracies = {Path(folder).name: accuracy(folder, texts) for folder in sys.argv[3:]}
    for name, share in accuracies.items():
        print(f"{name}: {100 * share:.1f} % of masked tokens")
    draw(accuracies, sys.argv[2])
