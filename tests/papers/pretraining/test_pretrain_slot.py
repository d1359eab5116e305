"""The slot trainer: its loss is BERT's, it goes on after SIGTERM, and its model is loaded."""

import json
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace

import numpy as np
import pytest
import torch
from server import run
from transformers import BertConfig, BertForMaskedLM

from tools import pretrain_slot as slot
from zoo.engine.backbone import find_backbone


@pytest.fixture
def text(tmp_path):
    """A matrix of drawn tokens; neighbours are equal, so that a model can learn it."""
    folder = tmp_path / "text"
    folder.mkdir()
    rows = np.repeat(1000 + np.random.default_rng(0).zipf(1.5, (4096, 64)) % 200, 2, axis=1).astype(np.uint16)
    rows[:, 0], rows[:, -1] = slot.CLS, slot.SEP
    np.save(folder / "tokens-00.npy", rows)
    (folder / "text.json").write_text('{"texts": ["drawn"]}')
    for name in slot.TOKENIZER:
        shutil.copyfile(find_backbone("zoo-small").folder / name, folder / name)
    return folder


def command(text, out, seconds):
    settings = "--shape tiny --device cpu --rows 4 --no-bf16 --no-compile --every 1 --held 8".split()
    words = (text, out, *settings)
    return [sys.executable, "-m", "tools.pretrain_slot", *map(str, words), "--seconds", str(seconds)]


def test_the_loss_is_that_of_transformers():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForMaskedLM(config)
    ids = torch.randint(1000, 2000, (3, slot.ROW), generator=torch.Generator().manual_seed(0))
    masked, places, labels = slot.masked(ids, torch.ones(slot.VOCABULARY), torch.Generator().manual_seed(0))
    ours, _ = slot.forward(model, masked, places, labels)
    theirs = model(input_ids=masked, labels=torch.full_like(ids, -100).scatter(1, places, labels)).loss
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    assert (masked != ids).sum() <= places.numel() == 3 * slot.LABELLED


def test_labels_are_drawn_by_the_inverse_root_of_frequency():
    ids = torch.where(torch.arange(slot.ROW) % 5 == 0, 2000, 1000).repeat(2000, 1)
    weights = torch.ones(slot.VOCABULARY).index_fill(0, torch.tensor([2000]), 2.0)
    labels = slot.masked(ids, weights, torch.Generator().manual_seed(0))[2]
    # Draws one after the other without replacement, as numpy makes them.
    chances = np.where(np.arange(slot.ROW) % 5 == 0, 2.0, 1.0)
    draw = np.random.default_rng(0)
    expected = np.mean(
        [
            (draw.choice(slot.ROW, slot.LABELLED, replace=False, p=chances / chances.sum()) % 5 == 0).mean()
            for _ in range(2000)
        ]
    )
    assert (labels == 2000).float().mean().item() == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_a_slot_of_no_seconds_writes_the_mean_of_models(text, tmp_path):
    folders, states = [tmp_path / "a", tmp_path / "b"], []
    for seed, folder in enumerate(folders):
        run([*command(text, folder, 2), "--seed", str(seed)], check=True)
        states.append(BertForMaskedLM.from_pretrained(folder / "model", dtype=torch.float32).state_dict())
    models = [str(folder / "model") for folder in folders]
    run([*command(text, tmp_path / "mean", 0), "--begin", *models], check=True)
    mean = BertForMaskedLM.from_pretrained(tmp_path / "mean" / "model", dtype=torch.float32).state_dict()
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (states[0][name] + states[1][name]) / 2, atol=1e-3, rtol=1e-3)
    facts = json.loads((tmp_path / "mean" / "model" / "pretraining.json").read_text())
    assert facts["step"] == 0 and len(facts["curve"]) == 1


@pytest.mark.slow
def test_a_model_of_a_few_steps_is_not_called_collapsed(text, tmp_path):
    rows = np.random.default_rng(0).integers(1000, 20_000, (4096, slot.ROW)).astype(np.uint16)
    np.save(text / "tokens-00.npy", rows)
    run(command(text, tmp_path / "out", 8), check=True)
    facts = json.loads((tmp_path / "out" / "model" / "pretraining.json").read_text())
    assert len(facts["curve"]) > 2 and facts["rate"] == 5e-4


def test_a_slot_that_collapses_goes_back_to_the_model_that_it_began_from(text, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertForMaskedLM(BertConfig(**sizes)).save_pretrained(tmp_path / "begun")
    settings = {"shape": "tiny", "device": "cpu", "rate": 0.3, "power": 0.5, "seed": 0}
    trained = slot.Slot(Namespace(text=text, out=tmp_path / "out", begin=[tmp_path / "begun"], **settings))
    begun = {name: weight.detach().clone() for name, weight in trained.weights.items()}
    for weight in trained.weights.values():
        weight.data.fill_(1)
    trained.restart()
    torch.testing.assert_close(dict(trained.model.named_parameters()), begun)
    assert (trained.state["rate"], trained.state["restarts"]) == (pytest.approx(0.1), 1)


# At "inf" the last check begins again with new weights, and no step may follow it.
@pytest.mark.slow
def test_a_slot_that_learns_nothing_writes_no_model(text, tmp_path):
    ended = subprocess.run([*command(text, tmp_path, 25), "--rate", "inf"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("begin again at a lower --rate.")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_a_stopped_slot_goes_on_and_its_model_is_loaded(text, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(command(text, out, 600))
    while not (out / "state.json").is_file():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    before = json.loads((out / "state.json").read_text())
    run(command(text, out, before["seconds"] + 2), check=True)
    facts = json.loads((out / "model" / "pretraining.json").read_text())
    assert facts["step"] > before["step"] > 0
    assert facts["curve"][: len(before["curve"])] == before["curve"]
    assert facts["ancestry"] == {"ancestors": [], "labelled": []}
    assert find_backbone(str(out / "model")).labelled == ()
    loaded = BertForMaskedLM.from_pretrained(out / "model", dtype=torch.float32)
    assert all(torch.isfinite(weight).all() for weight in loaded.parameters())
