"""Ten steps of both stages of the released LLM2Vec, and its vectors, on the small decoder of decoders.py.

`python release_llm2vec.py CHECKOUT DUMP` runs its classes, with transformers 4.44.2 and peft 0.12.0, and writes DUMP.
This file imports nothing of zoo-bench.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch

sys.path.append(str(Path(__file__).parent))
from decoders import TEXTS, write_llama

COMMIT = "312adcfb578b4023bfc9d3bcc83b6b87448ab059"
STEPS, RANK, RATE, LENGTH = 10, 4, 1e-3, 24
EVEN = [f"the {a} sees a {b}" for a in ("cat", "dog", "bird") for b in ("tree", "river", "stone", "house")]
"""Sentences of one length, whose rows have no padding."""


def fill(model):
    """Set the adapters of a model by a formula."""
    named = sorted((name, weight) for name, weight in model.named_parameters() if "lora_" in name)
    with torch.no_grad():
        for number, (_, weight) in enumerate(named):
            places = torch.arange(weight.numel(), dtype=torch.float64).reshape(weight.shape)
            weight.copy_(0.2 * torch.sin(places * (0.37 + 0.11 * number) + number))


def texts_of(step, padded):
    """Return the sentences of a step of SimCSE."""
    sentences = TEXTS if padded else EVEN
    return [sentences[(3 * step + i) % len(sentences)] for i in range(5)]


def ten_steps(model, batches, loss_of):
    """Train; return the losses, and the gradients of the first step by our names."""
    fill(model.train())
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=0.0)
    losses, gradients = [], {}
    for step, batch in enumerate(batches):
        loss = loss_of(model, batch)
        loss.backward()
        if step == 0:
            gradients = {name.rpartition("base_model.model.")[2]: w.grad.clone() for name, w in trained.items()}
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
        model.zero_grad()
        losses.append(float(loss))
    return losses, gradients


def main(checkout, dump):
    """Run the release and write what it did."""
    import peft
    import transformers
    from safetensors.torch import save_file

    assert (transformers.__version__, peft.__version__) == ("4.44.2", "0.12.0"), "the libraries of the release"
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True)
    if head.stdout.strip() != COMMIT:
        raise SystemExit(f"{checkout}: check out {COMMIT} of github.com/McGill-NLP/llm2vec.")
    sys.path[:0] = [str(checkout), str(Path(checkout) / "experiments")]
    sys.modules |= {name: mock.MagicMock() for name in ("evaluate", "datasets")}
    sys.modules["datasets"].__spec__ = None
    with mock.patch("transformers.utils.versions.require_version"):
        import run_mntp
        import run_simcse
    from llm2vec import LLM2Vec
    from llm2vec.dataset.dataset import TrainSample

    torch.manual_seed(0)
    tensors, results = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        place = write_llama(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        tokenizer.mask_token, tokenizer.pad_token = "_", "</s>"
        ids = [i for text in TEXTS * 16 for i in tokenizer(text)["input_ids"]]
        rows = [{"input_ids": ids[i : i + LENGTH]} for i in range(0, 4 * STEPS * LENGTH, LENGTH)]
        collators = {
            "mntp": run_mntp.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.2),
            "mntp-all": run_mntp.DataCollatorForLanguageModelingWithFullMasking(tokenizer, mlm_probability=0.8),
        }
        for name, collate in collators.items():
            model = run_mntp.LlamaBiForMNTP.from_pretrained(place, attn_implementation="sdpa")
            model.model = run_mntp.initialize_peft(model.model, RANK, 2 * RANK, 0.0)
            batches = [collate(rows[4 * i : 4 * i + 4]) for i in range(STEPS)]
            for i, batch in enumerate(batches):
                tensors |= {f"{name}.batch.{i}.{key}": batch[key].int() for key in ("input_ids", "labels")}
            results[name] = ten_steps(model, batches, lambda model, batch: model(**batch).loss)
            results[name][1]["head.weight"] = results[name][1].pop("lm_head.weight")[:64]
        contrast = run_simcse.load_loss("HardNegativeNLLLoss", scale=20)
        for name in ("simcse", "simcse-padded"):
            encoder = LLM2Vec.from_pretrained(place, attention_dropout=0.0, max_length=128)
            tensors["vectors"] = encoder.encode(TEXTS, show_progress_bar=False)
            encoder.model = run_simcse.initialize_peft(encoder.model, RANK, 2 * RANK, 0.0)
            texts = [texts_of(step, name == "simcse-padded") for step in range(STEPS)]
            samples = [[TrainSample(texts=[text, text], label=1.0) for text in some] for some in texts]
            batches = [run_simcse.DefaultCollator(encoder)(some)[0] for some in samples]
            results[name] = ten_steps(encoder, batches, lambda model, batch: contrast(*map(model, batch)))
    facts = {"release": f"McGill-NLP/llm2vec@{COMMIT}", "library": "transformers 4.44.2, peft 0.12.0"}
    for name, (losses, gradients) in results.items():
        print(name, losses)
        facts[name] = json.dumps(losses)
        tensors |= {f"{name}.gradient.{key}": value for key, value in gradients.items()}
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, dump, facts)


if __name__ == "__main__":
    main(*sys.argv[1:])
