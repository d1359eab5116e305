"""IS-BERT, InferSent, BERT-flow and the untrained prompt beside ports of their released codes, by the public `fit`.

Ten steps from the same weights on the same texts, without dropout, in float32: the losses, and the vectors after them.
docs/fidelity.md states the largest differences: from the released code, and from that code without what the recipe does
not follow.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ports import Pairs, Trained, flow_port, infersent_port, isbert_port, mean_of_layers, prompt_port
from ten_steps import STEPS, stated
from transformers import AutoConfig, AutoModel, AutoTokenizer

from zoo.encoder import NLI_LABELS, Corpus, Encoder, Run, Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.loop import Training
from zoo.training.siamese import held_out_by_first, labelled_task

THINGS = "cat dog tree house river stone cloud bird lamp train".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" + " again" * (i % 3) for i, a in enumerate(THINGS) for b in THINGS]
TEXTS = ["the old lamp", "a river near the tree , again", "no", "Birds see the cloud!", "Is it a stone?", "the 'cat'"]
PAIRS = [
    row
    for a in THINGS
    for b in THINGS[:3]
    for row in [
        (f"the {a} is near the {b}", f"the {a} is near", "entailment"),
        (f"the {a} is near the {b}", f"no {a} is near the old {b} of the house", "contradiction"),
    ]
]
NLI = Corpus("nli", [text for first, second, _ in PAIRS for text in (first, second)], [label for *_, label in PAIRS])


class Steps:
    """What the loop did: its start, the rows of each step, and their loss."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.start: Any = None
        self.rows: list[np.ndarray] = []
        self.losses: list[float] = []
        one_step = Training.one_step

        def noted(training: Training, rows: np.ndarray) -> float:
            self.start = self.start or copy.deepcopy(training.objective)
            self.rows.append(rows)
            self.losses.append(one_step(training, rows))
            return self.losses[-1]

        monkeypatch.setattr(Training, "one_step", noted)


def encoder_of(text: str) -> Encoder:
    cls, recipe = parse_methods(text, all_recipes())[0].resolve()
    return cls(recipe, Runtime())


Port = Callable[[bool], Trained]
Beside = tuple[list[float], torch.Tensor, Port]  # our losses, our vectors of TEXTS, and the port


def isbert(name: str, backbone: Path, steps: Steps, _folder: Path) -> Beside:
    encoder = encoder_of(f"{name}:batch_size=4:learning_rate=1e-3:channels=8:dropout=0.0:backbone={backbone}")
    encoder.fit(Corpus("toy", SENTENCES[: 4 * STEPS]), run=Run(seed=3))
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    batches = [[SENTENCES[i] for i in rows] for rows in steps.rows]
    return (
        steps.losses,
        torch.from_numpy(encoder.encode(TEXTS)),
        lambda released: isbert_port(steps.start, tokenizer, batches, TEXTS, rate=1e-3, released=released),
    )


def infersent(name: str, backbone: Path, steps: Steps, folder: Path) -> Beside:
    """Five epochs of two steps: the rate falls after each, and is divided after those without a gain."""
    small = "lstm_dim=6:classifier_dim=8:batch_size=24:epochs=5:dev_share=0.2"
    if name == "infersent-repo":
        encoder = encoder_of(f"{name}:{small}:backbone={backbone}")
        tokenizer, model = AutoTokenizer.from_pretrained(backbone), AutoModel.from_pretrained(backbone)
        table = model.get_input_embeddings().weight.detach()
        table = table * (0.5 / table.square().mean().sqrt())  # no part of the code, which reads GloVe

        def words_of(text: str, released: bool) -> torch.Tensor:
            return table[tokenizer(text)["input_ids"]]

    else:
        known = [*sorted({word for text in NLI.sentences for word in text.split()} - {"old"}), "<s>", "</s>"]
        glove = dict(zip(known, np.random.default_rng(0).normal(size=(len(known), 8)).astype(np.float32), strict=True))
        lines = [" ".join([word, *map(repr, map(float, vector))]) for word, vector in glove.items()]
        (folder / "words.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        encoder = encoder_of(f"{name}:{small}:path={folder / 'words.txt'}:lower_case=false")

        def words_of(text: str, released: bool) -> torch.Tensor:
            words = [word for word in text.split() if word in glove]
            return torch.from_numpy(
                np.stack([glove[word] for word in (["<s>", *words, "</s>"] if released else words)])
            )

    encoder.fit(NLI, run=Run(seed=3))
    train, held_out = (
        [
            (NLI.sentences[i], NLI.sentences[j], int(label))
            for i, j, label in zip(t.first, t.second, t.labels, strict=True)
        ]
        for t in held_out_by_first(labelled_task("NLI", NLI, NLI_LABELS, ""), NLI, 0.2)
    )

    def columns(rows: list[tuple[str, str, int]]) -> Pairs:
        first, second, labels = zip(*rows, strict=True)
        return first, second, labels

    batches = [columns([train[i] for i in rows]) for rows in steps.rows]
    epochs = [batches[i : i + 2] for i in range(0, STEPS, 2)]
    texts = TEXTS[:3]  # the others have no word with a vector

    def port(released: bool) -> Trained:
        words = functools.partial(words_of, released=released)
        return infersent_port(steps.start, words, epochs, columns(held_out), texts, released=released)

    return steps.losses, torch.from_numpy(encoder.encode(texts)), port


def three_layers(backbone: Path, folder: Path) -> Path:
    """A random BERT like `backbone`, of three layers: the first and the last are not the last two."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.from_pretrained(backbone, num_hidden_layers=3, hidden_size=64))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(backbone).save_pretrained(folder)
    return folder


def flow(name: str, backbone: Path, steps: Steps, folder: Path) -> Beside:
    """The port is in float64: at the start the gradients of actnorms are rounding errors, which Adam makes steps of."""
    ends = ("", " today", " now", " here", " at night", " , they say", " in town")
    sentences = [sentence + end for end in ends for sentence in SENTENCES][: 64 * STEPS]
    backbone = three_layers(backbone, folder)
    encoder = encoder_of(f"{name}:backbone={backbone}")
    encoder.fit(None, run=Run(seed=3))
    adapted = encoder.adapt(sentences)
    tokenizer, model = AutoTokenizer.from_pretrained(backbone), AutoModel.from_pretrained(backbone)
    nets = [step.net for step in steps.start.glow.steps]
    drawn = [(net.first.weight.detach().double().T, net.middle.weight.detach().double().T) for net in nets]
    batches = [mean_of_layers(model, tokenizer, [sentences[i] for i in rows]).double() for rows in steps.rows]

    def port(released: bool) -> Trained:
        texts = mean_of_layers(model, tokenizer, TEXTS).double()
        losses, z = flow_port(drawn, batches, texts, rate=1e-3, released=released)
        dim = z.shape[1]  # the code puts first what is final first; ours keeps each channel's place
        return losses, torch.cat([z[:, 3 * dim // 4 :], z[:, dim // 2 : 3 * dim // 4], z[:, : dim // 2]], 1)

    return steps.losses, torch.from_numpy(adapted.encode(TEXTS)), port


CHECKS = {"isbert-repo": isbert, "infersent-repo": infersent, "infersent-glove-repo": infersent, "flow-repo": flow}


@pytest.mark.parametrize("name", CHECKS)
def test_ten_steps_differ_from_the_port_as_the_page_says(
    name: str, vivid_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, vectors, port = CHECKS[name](name, vivid_bert, Steps(monkeypatch), tmp_path)
    assert len(losses) == STEPS and max(losses) - min(losses) > 1e-3
    for released, most in zip((True, False), map(float, stated()[name]), strict=True):
        theirs, their_vectors = port(released)
        off = float(np.abs(np.subtract(losses, theirs)).max())
        assert off <= most, f"{off:.3g}"
        assert off > most / 100 or most < 1e-4, f"the page does not state too much: {off:.3g}"
        if not released:
            # In float32 the port's own flow differs by 1e-2 from that in float64; its vectors are as large as 13.
            limit = 3e-2 if name == "flow-repo" else 1e-5
            torch.testing.assert_close(vectors, their_vectors.float(), atol=limit, rtol=0)


def test_prompt_vectors_are_those_of_the_released_code(vivid_bert: Path) -> None:
    encoder = encoder_of(f"prompt-repo:backbone={vivid_bert}")
    theirs = prompt_port(AutoModel.from_pretrained(vivid_bert), AutoTokenizer.from_pretrained(vivid_bert), TEXTS)
    assert stated()["prompt-repo"] == ("1e-5", "")
    torch.testing.assert_close(torch.from_numpy(encoder.encode(TEXTS)), theirs, atol=1e-5, rtol=0)
