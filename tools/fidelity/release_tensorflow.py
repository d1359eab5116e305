"""Runs Contrastive Tension's released TensorFlow code for ten steps, as `release.py` runs those of PyTorch.

`python tools/fidelity/release_tensorflow.py STARTS CHECKOUTS DUMPS`, with TensorFlow 2.15.1 and transformers 4.30.2.
"""

# ruff: noqa: B905, SIM118
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tensorflow as tf
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import BertConfig, TFBertModel

REPOSITORY, COMMIT = "FreddeFrallan/Contrastive-Tension", "75293a883344b389bfe726a3d43d6b48b29b55fb"
STEPS = 10


def our_name(variable, side):
    """Return our name of a variable of a side; TensorFlow's kernels are ours transposed."""
    path = variable.name.rpartition("/bert/")[2].removesuffix(":0").replace("layer_._", "layer/")
    *layers, kind = path.split("/")
    kinds = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}
    return ".".join([side, "model", *layers, kinds.get(kind, kind)])


def laid_out(variable, array):
    """Return an array of a variable, or of ours, in the other's layout."""
    return array.T if variable.name.endswith("kernel:0") else array


def model_of(config, start, side):
    """Return a side's model with our weights."""
    model = TFBertModel(config)
    model(model.dummy_inputs)
    for variable in model.trainable_variables:
        if "pooler" not in variable.name:
            variable.assign(laid_out(variable, start[our_name(variable, side)].numpy()))
    return model


def main(starts, checkouts, dumps):
    """Run `ct-repo` and write what it did."""
    assert (transformers.__version__, tf.__version__) == ("4.30.2", "2.15.1"), "the libraries of the release"
    checkout = Path(checkouts) / REPOSITORY.split("/")[1]
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if head.stdout.strip() != COMMIT:
        raise SystemExit(f"{checkout}: check out {COMMIT} of github.com/{REPOSITORY}.")
    sys.path.insert(0, str(checkout))
    from ContrastiveTension import ContrastiveTensionModel, Training

    with safe_open(Path(starts) / "ct-repo.safetensors", framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        facts = {key: json.loads(value) for key, value in file.metadata().items()}
    start = {key[len("start.") :]: value for key, value in tensors.items() if key.startswith("start.")}
    sides = {side: model_of(BertConfig(**facts["config"]), start, side) for side in ("f1", "f2")}
    model = ContrastiveTensionModel.ContrastivTensionModel(*sides.values())
    Training._setOptimizerWithStepWiseLinearLearningRate(model)
    losses, gradients = [], {}
    for i in range(STEPS):
        u_ids, u_mask, v_ids, v_mask = (tensors[f"batch.{i}.{j}"] for j in range(4))
        flat = [part.flatten(0, 1).numpy() for part in (u_ids, u_mask, v_ids, v_mask)]
        labels = torch.zeros(u_ids.shape[:2])
        labels[:, 0] = 1.0
        labels = tf.convert_to_tensor(labels.flatten().numpy())
        inputs = [tf.convert_to_tensor(part, tf.int32) for part in flat]
        if i == 0:
            with tf.GradientTape() as tape:
                loss = model.loss(labels, model.predictandCompareSents(tuple(inputs[:2]), tuple(inputs[2:]))[0])
            variables = {our_name(v, side): v for side, m in sides.items() for v in m.trainable_variables}
            variables = {name: variable for name, variable in variables.items() if "pooler" not in name}
            for name, gradient in tape.gradient(loss, variables).items():
                dense = tf.convert_to_tensor(gradient).numpy()
                gradients[name] = torch.from_numpy(laid_out(variables[name], dense).copy())
        losses.append(float(model.predictAndUpdate(*inputs, labels)[0]))
    off = max(abs(a - b) for a, b in zip(losses, facts["ours"]))
    print(f"ct-repo: losses differ by {off:.1e}; {len(gradients)} gradients")
    facts |= {"losses": losses, "release": f"{REPOSITORY}@{COMMIT}", "library": "TensorFlow 2.15.1"}
    tensors |= {f"gradient.{key}": value for key, value in gradients.items()}
    save_file(tensors, Path(dumps) / "ct-repo.safetensors", {key: json.dumps(value) for key, value in facts.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
