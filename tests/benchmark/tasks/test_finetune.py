"""Fine-tuned tasks: they learn, the encoder comes back as it was, seeds and resuming, and who is not fine-tuned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fakes import Bag, Cli

from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource
from benchmark.metrics import finetuning
from benchmark.metrics.correlation import correlations, cosine
from benchmark.tasks import TASKS
from benchmark.tasks.finetune import FinetuneData, LabelledFinetuneData, ScoredFinetuneData
from zoo.encoder import Encoder, Run, Runtime
from zoo.engine.tokens import tokenise
from zoo.errors import MissingError
from zoo.files import write_signed
from zoo.methods.pooled import Average
from zoo.methods.simcse import SimCSE
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

pytestmark = pytest.mark.slow

WORDS = "river stone lamp garden winter train letter bridge market apple music window".split()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random tiny backbone learns nothing at 2e-5 in four passes over few pairs."""
    monkeypatch.setattr(finetuning, "_RATE", 2e-3)
    monkeypatch.setattr(finetuning, "EPOCHS", 6)


@pytest.fixture
def encoder(tiny_bert: Path) -> Average:
    """A mean over token states of a random BERT."""
    return Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())


def scored(located: object) -> ScoredFinetuneData:
    """Pairs whose score is 5 where both name the same things and 0 elsewhere, whatever the order of words."""
    rng = np.random.default_rng(0)

    def pairs(rows: int) -> Pairs:
        first, second, gold = [], [], []
        for row in range(rows):
            a, b, c, d = rng.permutation(WORDS)[:4]
            first.append(f"the {a} by the {b}")
            second.append(f"the {b} by the {a}" if row % 2 else f"the {c} by the {d}")
            gold.append(5.0 * (row % 2))
        return Pairs(first, second, np.array(gold))

    splits = {"train": pairs(64), "dev": pairs(20), "test": pairs(30)}
    return ScoredFinetuneData(located, splits, None, low=0, high=5)  # type: ignore[arg-type]


def labelled() -> LabelledFinetuneData:
    """Words and phrases: class 1 where the phrase has the word."""
    rng = np.random.default_rng(1)

    def part(rows: int) -> Labelled:
        drawn = [rng.permutation(WORDS)[:3] for _ in range(rows)]
        labels = np.arange(rows) % 2
        second = [f"{x[0] if label else x[2]} {x[1]}" for x, label in zip(drawn, labels, strict=True)]
        return Labelled([str(x[0]) for x in drawn], labels, second)

    return LabelledFinetuneData(None, [part(192), part(40)], None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["scored", "labelled"])
def test_it_learns_and_gives_the_encoder_back(kind: str, encoder: Average, tmp_path: Path) -> None:
    """Better than before on held-out pairs; weights, vectors and mode afterwards are those of before."""
    data: FinetuneData = scored(None) if kind == "scored" else labelled()
    texts = data.texts()
    before, fingerprint = encoder.encode(texts), encoder.fingerprint()
    scores = data.score_encoder(encoder, encoder.encode, Run(tmp_path / "run"))
    assert set(scores["by_seed"]) == {"0", "1", "2"}
    each = [one[data.main] for one in scores["by_seed"].values()]
    assert scores["main"] == pytest.approx(np.mean(each))
    assert len({json.dumps(one) for one in scores["by_seed"].values()}) > 1
    assert scores["main"] > (0.6 if kind == "scored" else 0.7)
    assert encoder.fingerprint() == fingerprint
    assert np.array_equal(encoder.encode(texts), before)
    assert not encoder.backbone.model.training


def test_a_seeded_encoder_is_fine_tuned_once_by_its_seed(tiny_bert: Path, tmp_path: Path) -> None:
    """The same seed gives the same score; what is finished is read, not trained again."""
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert)), Runtime())
    data = labelled()
    first = data.score_encoder(encoder, encoder.encode, Run(tmp_path / "a", seed=5))
    assert list(first["by_seed"]) == ["5"]
    assert data.score_encoder(encoder, encoder.encode, Run(tmp_path / "b", seed=5)) == first
    finished = tmp_path / "a" / "seed-5" / "scores.json"
    write_signed(finished, {"accuracy": 0.123})
    assert data.score_encoder(encoder, encoder.encode, Run(tmp_path / "a", seed=5))["main"] == 0.123


@pytest.mark.parametrize("method", ["avg-last", "prompt", "optiprompt"])
def test_only_the_tokens_that_are_met_are_trained(
    method: str, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score is that of training all embeddings, templates included; what was frozen is trained here."""
    cls, recipe = parse_methods(method, all_recipes())[0].resolve({"backbone": str(tiny_bert)})
    encoder: Any = cls(recipe, Runtime())
    encoder.backbone.model.requires_grad_(method != "optiprompt")
    monkeypatch.setattr(finetuning, "EPOCHS", 2)
    data, run = scored(None), Run(tmp_path / "few", seed=1)
    few = data.fine_tune(encoder, run)
    assert {p.requires_grad for p in encoder.backbone.model.parameters()} == {method != "optiprompt"}
    monkeypatch.setattr(finetuning, "training_only", lambda *_: nullcontext())
    encoder.backbone.model.requires_grad_(True)
    assert data.fine_tune(encoder, replace(run, folder=tmp_path / "all")) == pytest.approx(few, abs=1e-4)
    assert few["pearson"] != pytest.approx(before_training(encoder, data), abs=1e-3)


def before_training(encoder: Encoder, data: ScoredFinetuneData) -> float | None:
    """Pearson of the test split without fine-tuning."""
    test = data.splits["test"]
    return correlations(cosine(encoder.encode(test.first), encoder.encode(test.second)), test.gold)["pearson"]


def test_the_loss_of_scores(encoder: Average) -> None:
    """Mean squared error of cosine and gold, by hand, and it moves every layer."""
    texts = ["a river", "the stone bridge", "winter", "a letter"]
    table = tokenise(encoder.backbone.tokenizer, texts, max_length=None)
    ids, mask = table.padded([0, 1, 2, 3], encoder.backbone.pad_id)
    gold = torch.tensor([0.2, 0.9])
    module = finetuning._Trainable(encoder)
    loss = finetuning.CosineRegression(module)(ids.view(2, 2, -1), mask.view(2, 2, -1), gold)
    u, v = (torch.from_numpy(encoder.encode(texts[i::2])) for i in (0, 1))
    assert loss.item() == pytest.approx(F.mse_loss(F.cosine_similarity(u, v), gold).item(), abs=1e-6)
    loss.backward()
    grads = {name: p.grad for name, p in module.named_parameters() if "pooler" not in name}
    assert all(g is not None for g in grads.values())


def encoders_without() -> Iterator[tuple[str, str]]:
    """Recipes whose vectors are not the pooled states of a backbone."""
    yield from (("static-avg", "Static"), ("whitening-target", "Whitening"))


@pytest.mark.parametrize(("name", "cls_name"), list(encoders_without()))
def test_who_is_not_fine_tuned(name: str, cls_name: str, tiny_bert: Path) -> None:
    """Static vectors and transforms: n/a, with the reason."""
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(tiny_bert)})
    encoder: Encoder = cls(recipe, Runtime())
    encoder = encoder.adapt([f"the {word} is here" for word in WORDS * 4])
    with pytest.raises(MissingError, match=f"{cls_name} has no trainable backbone"):
        finetuning.trainable(encoder)
    with pytest.raises(MissingError, match="Bag has no trainable backbone"):
        finetuning.trainable(Bag(Bag.Recipe(), Runtime()))


def test_what_is_read(data_dir: Path) -> None:
    """Test texts are tested, all are unlabelled, scores become 0 to 1."""
    for name, rows, low in (
        ("stsb-finetune", 1379, 0),
        ("sickr-finetune", 4927, 1),
        ("semeval2013-5a-finetune", 7490, 0),
    ):
        data = TASKS.get(name).load(DataSource(data_dir, hub=False))
        assert data.rows == rows
        assert len(data.texts()) == 2 * rows < len(data.unlabelled())
        if isinstance(data, ScoredFinetuneData):
            assert (data.low, data.high) == (low, 5)
            assert data.splits["train"].gold.min() == low


def test_a_run_makes_records(cli: Cli, data_dir: Path, tiny_bert: Path, tmp_path: Path) -> None:
    """The command line end to end: a score with its seeds, n/a with a reason, and nothing left behind."""
    methods = f"avg-last:backbone={tiny_bert},static-avg:backbone={tiny_bert}"
    words = ["run", "--methods", methods, "--suite", "finetune", "--tasks", "stsb-finetune", "--data", data_dir]
    answer = cli(*words, "--out", tmp_path, "--limit", 20, "--device", "cpu", "--allow-missing")
    assert answer.code == 0, answer.err
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "records").rglob("*.json")]
    by_method = {record["method"]["name"].split(":")[0]: record for record in records}
    good, missing = by_method["avg-last"], by_method["static-avg"]
    assert (good["status"], set(good["scores"]["by_seed"])) == ("ok", {"0", "1", "2"})
    assert (missing["status"], missing["scores"]) == ("n/a", None)
    assert "no trainable backbone" in missing["reason"]
    assert not [path for path in (tmp_path / "encoders").iterdir() if path.is_dir()]
