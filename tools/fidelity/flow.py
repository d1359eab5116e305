"""Runs BERT-flow's released flow on TensorFlow 2: its losses, gradients and vectors from weights that are a formula.

`python -m tools.fidelity.flow CHECKOUT DUMP`, with TensorFlow 2.15.1, tf_slim and scipy. The code is of TensorFlow 1:
its names stand in `compat.v1`, and tf_slim is what `contrib.framework` was.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

REPOSITORY, COMMIT = "bohanli/BERT-flow", "7fa8f6d4a1a73e2c2f8549799d9bafc9d6048d67"
DIM, ROWS, STEPS, RATE = 16, 32, 10, 1e-3


def drawn(*shape: int, seed: int, scale: float) -> torch.Tensor:
    """Return the same numbers everywhere."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def batch(step: int) -> torch.Tensor:
    """Return vectors (64, dim) of a step, whose halves are the sides of pairs: correlated, as an encoder's are."""
    return drawn(2 * ROWS, DIM, seed=step, scale=1.0) @ drawn(DIM, DIM, seed=99, scale=0.2) + drawn(
        DIM, seed=98, scale=1.0
    )


def weights() -> Iterator[tuple[str, torch.Tensor]]:
    """Return our names of a flow's weights and their values: far from the start, where a coupling changes nothing."""
    for place in range(9):
        dim = DIM >> place // 3
        half = dim // 2
        shapes = {"actnorm.bias": (dim,), "actnorm.logs": (dim,), "net.first.weight": (32, half)}
        shapes |= {"net.first_norm.bias": (32,), "net.first_norm.logs": (32,), "net.middle.weight": (32, 32)}
        shapes |= {"net.middle_norm.bias": (32,), "net.middle_norm.logs": (32,), "net.last.weight": (half, 32)}
        shapes |= {"net.last.bias": (half,), "net.logs": (half,)}
        for i, (name, shape) in enumerate(shapes.items()):
            yield f"chain.{place}.{name}", drawn(*shape, seed=1000 + 20 * place + i, scale=0.1)


def released(checkout: Path) -> tuple[Any, Any, Any]:
    """Return TensorFlow 1's names, the release's flow and its optimizers."""
    import tensorflow
    import tf_slim

    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    scope = types.SimpleNamespace(arg_scope=tf_slim.arg_scope, add_arg_scope=tf_slim.add_arg_scope)
    contrib = types.SimpleNamespace(framework=scope)
    old = types.ModuleType("tensorflow")
    old.__getattr__ = lambda name: contrib if name == "contrib" else getattr(tf, name)
    places = ("", ".contrib", ".contrib.framework", ".contrib.framework.python")
    replaced = {f"tensorflow{place}": old for place in places} | {"tensorflow.contrib.framework.python.ops": scope}
    sys.modules |= replaced
    sys.path.insert(0, str(checkout))
    flow, optimization = __import__("flow.glow_1x1", fromlist=["Glow"]), __import__("optimization_bert_flow")
    sys.modules["tensorflow"] = tensorflow
    return tf, flow, optimization


def main(checkout: str, dump: str) -> None:
    """Run the flow and write what it did."""
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if head.stdout.strip() != COMMIT:
        raise SystemExit(f"{checkout}: check out {COMMIT} of github.com/{REPOSITORY}.")
    tf, flow, optimization = released(Path(checkout).resolve())
    settings = json.loads((Path(checkout) / "flow" / "config" / "config_l3_d3_w32.json").read_text(encoding="utf-8"))
    sides = [tf.placeholder(tf.float32, [ROWS, DIM]) for _ in range(2)]
    rows, vectors = [], []
    for side in sides:
        with tf.variable_scope("bert/flow", reuse=tf.AUTO_REUSE):
            model = flow.Glow(flow.AttrDict(settings, is_training=True))
            rows.append(model.body(side, True))
        vectors.append(tf.squeeze(model.z, [1, 2]))
    ours = dict(weights())
    theirs = tf.trainable_variables("bert/flow")
    assert len(theirs) == len(ours), "both are in the order of the computation"
    named = dict(zip(ours, theirs, strict=True))
    loss = sum(tf.reduce_mean(side) for side in rows)
    gradients = dict(zip(named, tf.gradients(loss / 2, theirs), strict=True))
    other = tf.get_variable("bert/other", initializer=1.0)
    update = optimization.create_optimizer(other * other, loss, RATE, RATE, STEPS, 0, False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def given(step: int) -> dict[Any, Any]:
            return dict(zip(sides, batch(step).split(ROWS), strict=True))

        for name, weight in ours.items():
            value = weight.T if weight.ndim == 2 else weight
            named[name].load(value.numpy().reshape(named[name].shape.as_list()), session)
        both, encoded, slopes = session.run([rows, vectors, gradients], given(0))
        tensors = {"rows": torch.tensor([*both[0], *both[1]]), "vectors": torch.tensor([*encoded[0], *encoded[1]])}
        for name, slope in slopes.items():
            flat = torch.from_numpy(slope).squeeze()
            tensors[f"gradient.{name}"] = (flat.T if ours[name].ndim == 2 else flat).contiguous()
        # The training begins as the release does: from side a of a batch, where all but two layers are 0.
        for name, variable in named.items():
            if not name.endswith(("first.weight", "middle.weight")):
                variable.load(variable.eval(session) * 0, session)
        session.run(tf.get_collection("glow_init_op")[0], given(0))
        losses = [float(session.run([loss, update], given(step))[0]) / 2 for step in range(STEPS)]
    facts = {"losses": losses, "release": f"{REPOSITORY}@{COMMIT}"}
    save_file(tensors, dump, {key: json.dumps(value) for key, value in facts.items()})
    print(losses)


if __name__ == "__main__":
    main(*sys.argv[1:])
