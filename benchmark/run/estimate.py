"""A run's processes, memory and time before it begins, by a timed layer, on a GPU a product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from benchmark.records.folder import Records
from benchmark.run.plan import EncoderPlan, Run
from benchmark.tasks.finetune import SEEDS, FinetuneData
from zoo.encoder import Runtime
from zoo.errors import ZooError
from zoo.files import read_mapping
from zoo.limits import memory_here, threads_here
from zoo.machine import layer_rate, product_rate, stretch_now
from zoo.progress import clock, counted

# A GPU reaches this share of its product's rate.
_EFFICIENCY = 0.8
# A BiLSTM of 512 to 2048 states reaches about this share of a CPU layer's rate; its inputs' products are not counted.
_RECURRENT = 0.8
# Of a CPU, measured with 3 and 10 million weights. A GPU's is not known.
_UPDATE = 150.0
# A forward pass is one product, its backward pass two.
_TRAINED = 3
# Beside the products: loading weights, scores, records.
_SECONDS = 2.0
_SAMPLE = 500
# Training sentences of a run. With fewer, more processes save less than their start takes.
_WORTH_A_START = 2_000
_MEMORY_OF_PROCESS = 2**30
# Weights, gradients and two moments in float32, and about as much again for states.
_MEMORY_PER_WEIGHTS = 10
# A smaller slowdown by other work is not mentioned.
_BUSY = 1.2


class Rates(NamedTuple):
    """FLOP a second."""

    encoding: float
    training: float
    # Tokens whose training takes as long as an update of the weights.
    update: float = 0.0


def announced(run: Run) -> Run:
    """Print a run's size, device and time; return the run with its processes and times."""
    progress, device, records = run.runtime.progress, run.runtime.device, Records(run.options.results)
    again = run.options.remeasure
    plans = [plan for plan in run.encoders if again or run.open_cells(plan, records)]
    at_once = run.options.workers or _automatic_workers(run, plans)
    run = replace(run, workers=at_once)
    # Another process has timed the product.
    if not progress.enabled:
        return run
    run = timed(run, at_once)
    of_them = f"{len(plans)} of " if len(plans) < len(run.encoders) else ""
    count = f"{of_them}{counted(len(run.encoders), 'encoder')} x {counted(len(run.tasks), 'task')}"
    graphs = ", by CUDA graphs where a training can be captured" if run.runtime.cuda_graphs else ""
    progress.say(f"{count} on {device} in {run.runtime.precision}{graphs}{in_all(run, plans, at_once)}")
    return run


def timed(run: Run, at_once: int) -> Run:
    """Return the run with its encoders' seconds, and the slowdown of its processes by other work."""
    on_cpu = run.runtime.device == "cpu"
    cores = max(threads_here() // at_once, 1) if on_cpu else 1
    return replace(estimated(run, cores), stretch=stretch_now(cores * at_once) if on_cpu else 1.0)


def _automatic_workers(run: Run, plans: Sequence[EncoderPlan]) -> int:
    """Return the processes of `--workers auto`: on a CPU, many with one thread train faster than one with many."""
    trained = [plan for plan in plans if plan.sentences]
    # A cluster has its own processes. An object is measured in this one.
    if run.options.executor or run.request.objects:
        return 1
    if run.runtime.device != "cpu" or sum(plan.sentences for plan in trained) < _WORTH_A_START:
        return 1
    used = max(map(memory_of, trained))
    return max(min(threads_here(), len(trained), memory_here() // used), 1)


def memory_of(plan: EncoderPlan) -> int:
    """Return the approximate bytes of a training's process: Python, weights, gradients, moments, states."""
    if (source := plan.inputs.backbone) is None:
        return _MEMORY_OF_PROCESS
    weights = max((path.stat().st_size for path in source.folder.iterdir() if path.is_file()), default=0)
    return _MEMORY_OF_PROCESS + _MEMORY_PER_WEIGHTS * weights


def estimated(run: Run, cores: int) -> Run:
    """Return a run with its encoders' seconds on idle cores, or without any if no encoder has layers."""
    plans = [plan for plan in run.encoders if weights_of(plan)]
    if not plans:
        return run
    rates = rates_of(run.runtime, cores)
    texts = dict.fromkeys(text for task in run.tasks if task.data is not None for text in task.data.texts())
    dev = run.dev.data.texts() if run.dev is not None and run.dev.data is not None else []
    read = _tokens(list(texts), 512)
    learned = _fine_tuned(run, rates.update)
    looked = _tokens(dev, 512)
    seconds = {plan.inputs.row_key: _SECONDS for plan in run.encoders}
    for plan in plans:
        # A BiLSTM ignores the run's precision.
        reached = rates_of(replace(run.runtime, precision="fp32"), cores, _RECURRENT) if _states(plan) else rates
        seconds[plan.inputs.row_key] = _SECONDS + _seconds(plan, reached, read, looked)
        if learned and plan.row.traits.fine_tunes:
            seeds = 1 if plan.row.traits.stochastic else len(SEEDS)
            seconds[plan.inputs.row_key] += 2 * _TRAINED * weights_of(plan) * learned * seeds / reached.training
    return replace(run, seconds=seconds)


def _fine_tuned(run: Run, update: float) -> float:
    """Return the approximate training tokens of all fine-tuning tasks, with those of updates, for an encoder's seed."""
    texts = [text for task in run.tasks if isinstance(task.data, FinetuneData) for text in task.data.learned()]
    if not texts:
        return 0.0
    from benchmark.metrics.finetuning import BATCH, EPOCHS

    return EPOCHS * (_tokens(texts, 512) + len(texts) / 2 / BATCH * update)


def rates_of(runtime: Runtime, cores: int, share: float = 1.0) -> Rates:
    if runtime.device != "cpu":
        return Rates(*[_EFFICIENCY * product_rate(runtime.device, runtime.precision)] * 2)
    encoding, training = (layer_rate(runtime.precision, training=training) for training in (False, True))
    return Rates(share * cores * encoding, share * cores * training, _UPDATE)


def in_all(run: Run, plans: Sequence[EncoderPlan], at_once: int) -> str:
    """Return "; all of them take about 4:10" for the encoders to measure, or "" without an estimate."""
    seconds = sum(run.seconds.get(plan.inputs.row_key, 0.0) for plan in plans) / max(min(at_once, len(plans)), 1)
    busy = f", {clock(seconds * run.stretch)} beside the machine's other work" if run.stretch > _BUSY else ""
    return f"; all of them take about {clock(seconds)}{busy}" if seconds else ""


def _seconds(plan: EncoderPlan, rates: Rates, read: float, looked: float) -> float:
    """Return seconds for `read` tokens of all tasks and `looked` tokens of each dev score."""
    weights = weights_of(plan)
    seconds = 2 * weights * read / rates.encoding
    if plan.inputs.corpus is None:
        return seconds
    recipe, rows = plan.row.recipe, len(plan.inputs.corpus.sentences)
    tokens = _tokens(plan.inputs.corpus.sentences, getattr(recipe, "train_max_length", 512))
    passes = plan.row.traits.training_passes
    if not passes:
        # A transform encodes the training text.
        return seconds + 2 * weights * tokens / rates.encoding
    epochs, batch = getattr(recipe, "epochs", 1), getattr(recipe, "batch_size", 64) * getattr(recipe, "accumulate", 1)
    steps = getattr(recipe, "steps", None) or -(-rows * epochs // batch)
    if most := getattr(recipe, "most_steps", None):
        steps = min(steps, max(most(rows), 1))
    looks = getattr(recipe, "looks", None) or -(-steps // (getattr(recipe, "eval_every", None) or steps))
    seconds += 2 * weights * looked * plan.row.traits.picks_checkpoint * looks / rates.encoding
    tokens *= passes * steps * batch / (rows * epochs)
    return seconds + 2 * _TRAINED * weights * (tokens + steps * rates.update) / rates.training


def _states(plan: EncoderPlan) -> int:
    """Return the states of a BiLSTM's direction, 0 for other methods."""
    states: int = getattr(plan.row.recipe, "lstm_dim", 0)
    return states


def weights_of(plan: EncoderPlan) -> int:
    """Return the number of the layers' weights, without embeddings, or of a BiLSTM's between states."""
    if states := _states(plan):
        # Two directions of four gates.
        return 8 * states**2
    if plan.inputs.backbone is None:
        return 0
    try:
        config = read_mapping(plan.inputs.backbone.folder / "config.json")
    except ZooError:
        # A folder of modules has none.
        return 0
    width, layers = (_first(config, names) for names in (("hidden_size", "d_model"), ("num_hidden_layers", "n_layer")))
    return layers * (4 * width**2 + 2 * width * (_first(config, ("intermediate_size", "d_ff")) or 4 * width))


def _first(config: dict[str, object], names: Sequence[str]) -> int:
    return next((size for name in names if isinstance(size := config.get(name), int)), 0)


def _tokens(texts: Sequence[str], most: int) -> float:
    """Return the approximate tokens of texts cut to `most`, from a sample: 1.3 a word, and two a text."""
    some = list(islice(texts, 0, None, max(len(texts) // _SAMPLE, 1)))
    return sum(min(1.3 * len(text.split()) + 2, most) for text in some) * len(texts) / max(len(some), 1)
