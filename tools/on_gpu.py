"""What a GPU has to be able to do, done on one (or on a pretended one) and on the CPU; prints what came out as JSON.

python -m tools.on_gpu PART FOLDER, or for each fourth recipe: python -m tools.on_gpu every FOLDER 1/4 bf16
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
SMALL = {"batch_size": 32, "pseudo_tokens": 4, "queue_size": 64, "k": 8, "pooling": "mean", "epochs": 1, "steps": 4}
SMALL |= {"table_steps": 4, "table_batch_size": 32, "lstm_dim": 16, "classifier_dim": 16, "channels": 16}
SMALL |= {"mntp_steps": 4, "mntp_batch_size": 8, "mntp_length": 32}
# One recipe of nearly every method that can be made of these weights alone. Left out are InferSent (only CUDA has the
# kernel of its LSTM), those of files (vectors of words or texts), and ConSERT after NLI, which takes a minute.
RECIPES = """angle avg-last burt cls consert consert-joint cosent cot-bert clear ct diffcse echo esimcse esimcse-repo
flow gcse infocse isbert matryoshka max mixcse model2vec moco-reorder optiprompt promcse prompt promptbert ptbert
ptbert-repo rankcse sbert sentence-crops sif sif-tokens simcse simcse-mlm simcse-plus-plus simcse-sup simcse-words
static-head whitening whitening-target pretrained metaeol token-prepending angle-llama prompteol-sup""".split()


def backbone(folder: Path, dropout: float) -> Path:
    """Write a random two-layer BERT, 32 wide, with MLM head and zoo-mini's tokenizer, and a GPT-2 of that size."""
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=30522, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **shape)
    causal = GPT2Config(vocab_size=30522, n_embd=32, n_layer=2, n_head=2, eos_token_id=102, bos_token_id=101)
    for model, place in ((BertForMaskedLM(config), folder), (GPT2LMHeadModel(causal), folder.with_name("causal"))):
        model.save_pretrained(place)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(ROOT / "zoo" / "models" / "zoo-mini" / name, place)
    return folder


def checked(device: str, folder: Path, names: str = "", precision: str = "bf16") -> dict[str, Any]:
    """The conformance check (training, saving and loading among it) of recipes: what is wrong with each.

    By autocast in bfloat16 a tensor on the wrong side fails too.
    """
    model = str(backbone(folder / "bert", 0.1))
    return {name: _wrong(name, model, device, precision) for name in names.split() or RECIPES}


def _wrong(name: str, model: str, device: str, precision: str) -> dict[str, str]:
    from zoo.conformance import check
    from zoo.encoder import Runtime
    from zoo.recipes import all_recipes

    cls, recipe = all_recipes()[name].resolve()
    results = check(cls, _small(cls, recipe, model), Runtime(device=device, precision=precision), name)
    return {what: wrong for what, wrong in results if wrong}


def _small(cls: type[Any], recipe: Any, model: str, **more: Any) -> Any:
    if cls.__name__ in ("Causal", "EOL", "AdaptedSimCSE", "AdaptedAnglE", "LLM2Vec"):
        model = str(Path(model).with_name("causal"))
    fields = {**SMALL, "backbone": model, "model": model, **more}
    values = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    small = {
        key: float(value) if isinstance(values[key], float) else value for key, value in fields.items() if key in values
    }
    return dataclasses.replace(recipe, **small)


def every(device: str, folder: Path, share: str, precision: str) -> dict[str, Any]:
    """The check of each N-th recipe from the I-th on; an error (a missing lexicon, say) is a finding too."""
    from zoo.recipes import all_recipes

    model, results = str(backbone(folder / "bert", 0.1)), {}
    first, step = map(int, share.split("/"))
    for name in list(all_recipes())[first - 1 :: step]:
        try:
            results[name] = _wrong(name, model, device, precision)
        except Exception as error:
            # The other recipes are to be tried all the same.
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({name: results[name]}), file=sys.stderr, flush=True)
    return results


def waits(device: str, folder: Path, names: str = "") -> dict[str, Any]:
    """Waits of the host in a step, but for losses that are read, of each trained recipe that differs in more."""
    from speed.counts import Counting
    from tools import pretend_gpu
    from zoo.check import _toy_corpus, _toy_pairs
    from zoo.encoder import Run, Runtime
    from zoo.recipes import all_recipes
    from zoo.training.loop import Training

    counting = Counting(pretend_gpu)
    results: dict[str, Any] = {"kinds": _kinds_of_waits(device, counting)}
    at_start: dict[Training, list[int]] = {}
    one_step = Training.one_step

    def noted(training: Training, rows: Any) -> float:
        at_start.setdefault(training, []).append(counting.counts["waits"])
        training.total_steps = min(training.total_steps, 5)
        return one_step(training, rows)

    Training.one_step = noted  # type: ignore[method-assign]
    model, tried = str(backbone(folder / "bert", 0.1)), set()
    for name in names.split() or all_recipes():
        cls, recipe = all_recipes()[name].resolve()
        traits = cls.traits(recipe)
        recipe = _small(cls, recipe, model, batch_size=8, epochs=4, steps=5)
        settings = {key: value if isinstance(value, str | bool) else bool(value) for key, value in vars(recipe).items()}
        if not (traits.needs_corpus or traits.needs_pairs) or (kind := f"{cls} {settings}") in tried:
            continue
        tried.add(kind)
        at_start.clear()
        try:
            encoder = cls(recipe, Runtime(device=device, precision="bf16"))
            encoder.fit(_toy_pairs() if traits.needs_pairs else _toy_corpus(), run=Run(seed=0, checkpoint_steps=10**9))
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
        else:
            steps = [counts[1:] for counts in at_start.values() if len(counts) > 2]
            # Without steps, or with another recipe's training in a few, there is nothing to count.
            if steps:
                results[name] = max((counts[-1] - counts[0]) / (len(counts) - 1) for counts in steps)
        print(json.dumps({name: results.get(name)}), file=sys.stderr, flush=True)
    return results


def _kinds_of_waits(device: str, counting: Any) -> list[int]:
    """What the counter counts for each kind of wait, and then for what needs none."""
    x, true = torch.arange(6.0).to(device), torch.tensor([True, False] * 3).to(device)

    def counted(act: Callable[[], Any]) -> int:
        before = counting.counts["waits"]
        act()
        return int(counting.counts["waits"] - before)

    waiting: list[Callable[[], Any]] = [
        lambda: x[true],
        lambda: x.clone().__setitem__(true, x[:3]),
        lambda: x.masked_select(true),
        lambda: x.repeat_interleave(true.long()),
        lambda: x.long().bincount(),
        lambda: x.unique_consecutive(),
        lambda: float(x.sum()),
        lambda: bool((x > 0).all()),
    ]
    others: list[Callable[[], Any]] = [
        lambda: x.clone().__setitem__(true, 0.0),
        lambda: x.masked_fill(true, 0.0),
        lambda: x[true.long()],
        lambda: x.repeat_interleave(2),
    ]
    return [*map(counted, waiting), *map(counted, others)]


def moves(device: str, folder: Path) -> dict[str, Any]:
    """How far vectors are from those on the CPU, for encoders that were made there and moved."""
    import zoo.encoder
    from zoo.api import create
    from zoo.encoder import Run

    zoo.encoder.choose_device = lambda wanted: wanted
    model, results = backbone(folder / "bert", 0.1), {}
    for name in ("avg-last", "static-avg", "whitening", "flow", "promptbert", "isbert", "pretrained"):
        key = "pooling=mean:model" if name == "pretrained" else "backbone"
        encoder = create(f"{name}:{key}={model}")
        if hasattr(encoder, "learn"):
            encoder.learn(encoder.base.encode([f"{i} small dogs" for i in range(64)]), Run())  # type: ignore[attr-defined]
        texts = ["a" + " small" * number + " dog" for number in range(12)]
        before = encoder.encode(texts)
        after = encoder.encode(texts, device=device)
        results[name] = [float(np.abs(after - before).max()), encoder.runtime.device]
    return results


def captured(device: str, folder: Path, shape: str = "small") -> dict[str, Any]:
    """Trainings by CUDA graphs beside ordinary ones: losses in float32 without dropout; ms a step in bfloat16."""
    from speed.device import weights
    from tools import pretend_graph
    from zoo.training import graphs

    if device != "cuda":
        graphs._DEVICES = (device,)
        graphs.Graphs.capture = pretend_graph.capture  # type: ignore[assignment, method-assign]
    model = weights(folder / "bert", tiny=False) if shape == "base" else str(backbone(folder / "bert", 0.1))
    results = dict[str, Any]()
    for name in ("simcse", "promptbert", "ptbert"):
        read = [_steps(name, model, device, "fp32", on, read=True) for on in (False, True)]
        results[name] = {"losses": [one[0] for one in read], "captured": read[1][2]}
        # Only a real device's times say anything.
        if device == "cuda":
            results[name]["ms"] = [_steps(name, model, device, "bf16", on, steps=120)[1] for on in (False, True)]
        print(json.dumps({name: results[name]}), file=sys.stderr, flush=True)
    return results


def _steps(
    name: str, model: str, device: str, precision: str, on: bool, steps: int = 20, read: bool = False
) -> tuple[list[float], float, int]:
    """The losses of a training, if they are to be read, without dropout; ms of its last third; replays."""
    from speed.device import made_up
    from zoo.encoder import Corpus, Run, Runtime
    from zoo.recipes import all_recipes
    from zoo.training.loop import Training

    cls, recipe = all_recipes()[name].resolve()
    rows, small = (64, {}) if device == "cuda" else (8, {"queue_size": 16, "pseudo_tokens": 4})
    settings = {"backbone": model, "batch_size": rows, "eval_every": 10**9, "epochs": 1, **small}
    settings |= {} if not read else {"dropout": 0.0, "attention_dropout": 0.0, "learning_rate": 3e-4}
    known = {field.name for field in dataclasses.fields(recipe)}
    recipe = dataclasses.replace(recipe, **{key: value for key, value in settings.items() if key in known})
    losses, times, one_step = [], [], Training.one_step

    def noted(training: Training, batch: Any) -> float:
        one_step(training, batch)
        if read:
            training._read()
            losses.append(training.last_loss)
        if training.step + 1 in (steps - steps // 3, steps):
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter())
        return training.last_loss

    Training.one_step = noted  # type: ignore[method-assign]
    try:
        encoder = cls(recipe, Runtime(device=device, precision=precision, cuda_graphs=on))
        report = encoder.fit(Corpus("made up", made_up(rows * steps)), run=Run(seed=0, checkpoint_steps=10**9))
    finally:
        Training.one_step = one_step  # type: ignore[method-assign]
    return losses, round(1000 * (times[1] - times[0]) / (steps // 3), 2), report.facts.get("captured_steps", 0)


def probes(device: str, folder: Path) -> dict[str, Any]:
    """Accuracies of the probes, two and three classes, each protocol, and the relatedness regression."""
    from benchmark.metrics import relatedness
    from benchmark.metrics.probe.protocol import FAST, FULL, cross_validated, nested, split

    results = {}
    hidden = dataclasses.replace(FAST, name="hidden", recipe=dataclasses.replace(FAST.recipe, hidden=5))
    for classes in (2, 3):
        random = np.random.RandomState(classes)
        x = random.randn(300, 12).astype(np.float32)
        y = (x[:, :classes] + random.randn(300, classes) * 1.5).argmax(1).astype(np.int64)
        for setting in (FULL, FAST, hidden):
            some = dataclasses.replace(setting, folds=3)
            results[f"{classes} {setting.name}"] = [
                nested(x, y, some, device).accuracy,
                cross_validated(x, y, 200, some, device).accuracy,
                split(x, y, 150, 50, some, device).accuracy,
            ]
    relatedness._PASSES, relatedness._MOST_PASSES = 2, 6
    gold = np.random.RandomState(5).rand(200) * 4 + 1
    features = np.random.RandomState(6).randn(300, 10).astype(np.float32)
    results["relatedness"] = [relatedness.regress(features, gold[:150], gold[150:], device).dev_pearson]
    return results


def training(device: str, folder: Path) -> dict[str, Any]:
    """Dev scores inside, a stop and its resumption; fine-tuning."""
    from benchmark.metrics.finetuning import fine_tuned_by_score, fine_tuned_right
    from zoo.check import _toy_corpus
    from zoo.encoder import Run, Runtime
    from zoo.errors import Interrupted
    from zoo.recipes import all_recipes

    runtime = Runtime(device=device)
    cls, recipe = all_recipes()["moco-reorder"].resolve()
    settings: dict[str, Any] = {"backbone": str(backbone(folder / "bert", 0.0)), "batch_size": 16, "queue_size": 32}
    recipe = dataclasses.replace(recipe, **settings, eval_every=2)
    corpus = _toy_corpus()
    results: dict[str, Any] = {}

    def fit(stop_at: int) -> list[float]:
        encoder = cls(recipe, runtime)
        asked = iter(range(10_000))
        run = Run(
            seed=1,
            folder=folder / f"run-{device}",
            checkpoint_steps=1,
            stop_signal=lambda: 15 if next(asked) == stop_at else None,
        )
        report = encoder.fit(corpus, dev_score=lambda fitted: float(fitted.encode(["a", "b"]).std()), run=run)
        return [report.final_loss or 0.0, *report.dev_scores.values()]

    try:
        fit(stop_at=3)
    except Interrupted as error:
        results["stopped"] = "step 3" in str(error)
    results["resumed"] = fit(stop_at=-1)

    encoder = cls(recipe, runtime)
    # Of the small weights' vectors, nearly equal ones, gradients are rounding.
    with torch.no_grad():
        for weights in encoder.backbone.model.parameters():
            weights.mul_(10)
    sides = corpus.sentences[:20], corpus.sentences[20:40]
    gold = np.linspace(0, 1, 20)
    with fine_tuned_by_score(encoder, sides, gold, lambda: float(encoder.encode(["a"])[0, 0]), Run(seed=0)):
        results["tuned"] = encoder.encode(["A lamp."])[0, :4].tolist()
    labels = np.arange(20) % 2
    results["tuned accuracy"] = [float(np.mean(fine_tuned_right(encoder, sides, labels, sides, labels, Run(seed=0))))]
    return results


def narrow(device: str, folder: Path) -> dict[str, Any]:
    """What a device without float64 makes: vectors, whitened vectors, ten steps of SimCSE, probes."""
    from zoo.api import create
    from zoo.check import _toy_corpus
    from zoo.encoder import Run, Runtime

    # Draws of dropout are a device's own.
    model, texts = backbone(folder / "bert", 0.0), ["a" + " small" * number + " dog" for number in range(12)]
    corpus, results = _toy_corpus(), dict[str, Any]()
    trained = "batch_size=8:epochs=2:eval_every=4:dropout=0.0"
    for name in ("avg-last", "whitening", f"simcse:{trained}", f"simcse:{trained}:optimizer=transformers-adamw"):
        encoder = create(f"{name}:backbone={model}", runtime=Runtime(device=device))
        report = encoder.fit(corpus, dev_score=lambda fit: float(fit.encode(["a", "b"]).std()), run=Run(seed=1))
        results[name] = [*encoder.encode(texts)[:, 0].tolist(), report.steps or 0]
    try:
        torch.zeros(3, dtype=torch.float64).to(device)
        results["refused"] = device == "cpu"
    except TypeError:
        results["refused"] = True
    return results | probes(device, folder)


def faults(device: str, folder: Path) -> dict[str, Any]:
    """What must fail on a GPU and only there, tensors of both sides in one sum, say; and what autocast makes."""

    def tried(fault: Callable[[torch.Tensor], Any]) -> bool:
        try:
            fault(torch.ones(3, device=device))
        except (RuntimeError, TypeError):
            return True
        return False

    everyday: list[Callable[[torch.Tensor], Any]] = [
        lambda x: x + torch.ones(3),
        lambda x: x.index_select(0, torch.tensor([1])),
        lambda x: torch.nn.Linear(3, 2)(x),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
    ]
    with torch.autocast(device, torch.bfloat16):
        product = torch.nn.Linear(3, 2).to(device)(torch.ones(1, 3, device=device))
        dtypes = [str(product.dtype), str(product.softmax(1).dtype)]
    return {"failed": [tried(fault) for fault in everyday], "dtypes": dtypes}


def main(part: str, folder: Path, *more: str) -> None:
    """Print the findings of one part on the CPU and on the GPU."""
    from tools.pretend_gpu import pretend

    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "every": every,
        "check": checked,
        "waits": waits,
        "captured": captured,
        "probes": probes,
        "training": training,
        "faults": faults,
        "narrow": narrow,
        "moves": moves,
    }
    torch.set_num_threads(1)
    # Before the first backward pass, which counts devices.
    device = "cuda" if torch.cuda.is_available() else pretend(part == "narrow")
    results = {"gpu": parts[part](device, folder, *more)}
    # The check is run on the CPU elsewhere.
    if part not in ("check", "every", "waits", "captured"):
        results["cpu"] = parts[part]("cpu", folder)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
