"""LLM2Vec beside its released classes, whose steps tools/fidelity/release_llm2vec.py wrote, and what is ours alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from ten_steps import PAGE

from tools.fidelity import decoders, start
from tools.fidelity import release_llm2vec as release
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.formats.export import write_sentence_transformers
from zoo.methods import llm2vec
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "llm2vec": {
        "version": 2,
        "settings": {"mntp_steps": 4, "mntp_batch_size": 4, "mntp_length": 32, "steps": 4},
        "values": [-1.0, 0.6928, -0.3656, 0.289, 0.5479, -0.3573, -1.0, 0.5664],
    }
}
DUMP = Path(__file__).parent / "dumps" / "decoders" / "llm2vec.safetensors"
# As the release was run.
EXACT = "lora_rank=4:lora_dropout=0:dropout=0.0:learning_rate=1e-3:mask_token=fact"
NAMES = {
    "mntp": f"llm2vec:{EXACT}",
    "mntp-all": f"llm2vec:{EXACT}:mask_rate=0.8:masked=1.0",
    "simcse": f"llm2vec:{EXACT}",
    "simcse-padded": f"llm2vec-repo:{EXACT}",
}
SHORT = "mntp_steps=6:steps=6:batch_size=4:mntp_batch_size=2:mntp_length=32:mask_token=fact"
CORPUS = Corpus("toy", decoders.TEXTS * 3)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = decoders.write_llama(tmp_path_factory.mktemp("llm2vec") / "llama")
    return folder


def encoder_of(name: str, folder: Path) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    return cls(recipe, Runtime())


def batches_of(name: str, encoder: Any, dump: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the release's batches, for a first stage with its choice of tokens."""
    if name.startswith("simcse"):
        texts = [release.texts_of(step, name == "simcse-padded") for step in range(release.STEPS)]
        return [encoder.training_rows(Corpus("toy", rows), Run())[0](np.arange(len(rows))) for rows in texts]
    batches = []
    drawn = {}
    for step in range(release.STEPS):
        ids, labels = (dump[f"{name}.batch.{step}.{key}"].long() for key in ("input_ids", "labels"))
        original = torch.where(labels == -100, ids, labels)
        drawn[original.numpy().tobytes()] = ids, labels != -100
        batches.append((original, torch.ones_like(original)))
    monkeypatch.setattr(llm2vec, "mask_some", lambda ids, *_, **__: drawn[ids.numpy().tobytes()])
    return batches


@pytest.mark.parametrize("name", NAMES)
def test_ten_steps_are_those_of_the_release(name: str, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses to 1e-5 a step, since each step's rounding moves the next; gradients of the first as float32 sums."""
    encoder = encoder_of(NAMES[name], llama)
    with safe_open(DUMP, framework="pt") as file:
        dump = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        expected = json.loads(file.metadata()[name])
    batches = batches_of(name, encoder, dump, monkeypatch)
    objective = encoder.next_tokens() if name.startswith("mntp") else encoder.objective()
    release.fill(objective)
    ours = {key.split("model.", 1)[-1]: g for key, g in start.gradients(objective, batches[0]).items()}
    theirs = {key.split(".gradient.")[1]: g for key, g in dump.items() if key.startswith(f"{name}.gradient.")}
    assert ours.keys() == theirs.keys(), "the output layer is trained in the first stage alone"
    for key, wanted in theirs.items():
        torch.testing.assert_close(ours[key][: len(wanted)], wanted, rtol=0, atol=start.rounding(wanted))
    remaining = iter(batches)
    losses = start.steps(encoder, objective, lambda _: next(remaining), 5 * release.STEPS)
    start.assert_losses(losses, expected)
    assert f"McGill-NLP/llm2vec/tree/{release.COMMIT}" in PAGE.read_text(encoding="utf-8")


def test_vectors_without_training_are_those_of_the_release(llama: Path) -> None:
    with safe_open(DUMP, framework="np") as file:
        theirs = file.get_tensor("vectors")
    texts = [*decoders.TEXTS, ""]
    for name in ("llm2vec-bi", "llm2vec"):
        vectors = encoder_of(name, llama).encode(texts)
        np.testing.assert_allclose(vectors[:-1], theirs, rtol=0, atol=1e-5)
        assert np.isfinite(vectors).all()
    assert np.abs(encoder_of("causal-mean", llama).encode(texts[:-1]) - theirs).max() > 0.1


@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 9])
def test_a_training_that_was_killed_in_either_stage_ends_with_the_same_bits(
    step: int, llama: Path, tmp_path: Path
) -> None:
    """The first stage has steps 0 to 5, the second 6 to 11; checkpoints are two steps apart, the last before it."""
    undisturbed = encoder_of(f"llm2vec:{SHORT}", llama)
    report = undisturbed.fit(CORPUS, run=Run(seed=1))
    assert (report.steps, report.facts["mntp_steps"]) == (6, 6)
    rates = {getattr(module, "attention_dropout", 0.3) for module in undisturbed.backbone.model.modules()}
    assert rates == {0.3}, "it draws its dropout by itself, where no layer of it can be found"
    steps = iter(range(99))

    def kill() -> None:
        if next(steps) == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder_of(f"llm2vec:{SHORT}", llama).fit(
            CORPUS, run=Run(tmp_path, seed=1, checkpoint_steps=2, stop_signal=kill)
        )
    assert (tmp_path / "mntp" / "checkpoint.safetensors").exists()
    assert (tmp_path / "checkpoint.safetensors").exists() == (step == 9)
    resumed = encoder_of(f"llm2vec:{SHORT}", llama)
    resumed.fit(CORPUS, run=Run(tmp_path, seed=1))
    assert resumed.fingerprint() == undisturbed.fingerprint() != encoder_of(f"llm2vec:{SHORT}", llama).fingerprint()
    assert not any("lora" in name for name in resumed.backbone.model.state_dict())
    resumed.save(tmp_path / "saved")
    again = type(resumed).load(tmp_path / "saved")
    assert np.array_equal(again.encode(decoders.TEXTS), undisturbed.encode(decoders.TEXTS))


def test_an_export_reads_both_ways_and_what_it_cannot_pool_is_refused(llama: Path, tmp_path: Path) -> None:
    encoder = encoder_of(f"llm2vec:{SHORT}:special_tokens=true", llama)
    encoder.fit(CORPUS, run=Run(seed=1))
    write_sentence_transformers(encoder, tmp_path / "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(decoders.TEXTS)
    np.testing.assert_allclose(encoder.encode(decoders.TEXTS), theirs, atol=1e-5)
    with pytest.raises(UsageError, match="no stock module"):
        write_sentence_transformers(encoder_of("llm2vec", llama), tmp_path / "other")


def test_what_cannot_be_is_refused(llama: Path, tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match="the recipe needs a decoder-only backbone, but in 'tiny-bert'"):
        encoder_of("llm2vec", tiny_bert)
    with pytest.raises(UsageError, match=r"mask_token '_' is no token of backbone 'llama'"):
        encoder_of("llm2vec", llama).fit(CORPUS, run=Run())
    encoder = encoder_of("llm2vec:mask_token=fact", llama)
    fact = encoder.backbone.tokenizer.convert_tokens_to_ids("fact")
    assert encoder.next_tokens().mask.keywords["mask_id"] == fact
    for fields in ({"lora_rank": -1}, {"masked": 1.5}, {"pooler": "cls"}, {"mntp_steps": 0}):
        with pytest.raises(ValueError, match=next(iter(fields))):
            llm2vec.LLM2Vec.Recipe(**fields)
