"""Resources that Ray reserves for one encoder, from the memory that its own model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmark.run.plan import EncoderPlan
from zoo.engine.backbone import find_backbone
from zoo.errors import UsageError, ZooError
from zoo.files import read_mapping

_BASE_BYTES = 1 << 30  # memory of a process with PyTorch, Transformers and the data; or of a GPU's context
_COPIES = 6  # of the weights while training: weights, gradients, Adam's two moments, the best, a momentum encoder's
_TEXTS = 3  # of one training example: a sentence, its positive and a hard negative
_STATES = 68  # bytes per token, layer and hidden unit that the backward pass reads, in float32 (34 in 16 bits)
_ENCODED_TOKENS = 1 << 15  # of a batch that is encoded, of which one layer's states are in memory
_TOKENS = 128  # of a training text where the recipe has no limit: the longest that the papers' codes train on
_AT_ONCE = 8  # encoders on one GPU: more of them wait for each other's kernels


class Memory(NamedTuple):
    """Bytes of one encoder while it is fitted and measured: of its process with the weights, and of its activations."""

    process: int
    activations: int = 0


def memory_of(plan: EncoderPlan) -> Memory:
    """Return the memory that one encoder takes: weights, optimizer and activations.

    They are counted from the size and the config.json of its backbone; without one, only a process is counted.
    """
    name = getattr(plan.recipe, "backbone", None) or getattr(plan.recipe, "model", None)
    if not isinstance(name, str) or plan.missing is not None:
        return Memory(_BASE_BYTES)
    try:
        folder = find_backbone(name, getattr(plan.recipe, "revision", None)).folder
        config = read_mapping(folder / "config.json") if (folder / "config.json").is_file() else {}
    except ZooError:  # the error is reported when the encoder is measured
        return Memory(_BASE_BYTES)
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch.") in ("float16", "bfloat16"):
        weights *= 2  # training keeps them in float32
    if not plan.traits.training_passes:
        return memory_bytes(weights, config)
    rows = getattr(plan.recipe, "chunk_rows", None) or getattr(plan.recipe, "batch_size", None) or 64
    length = getattr(plan.recipe, "train_max_length", None) or _TOKENS
    return memory_bytes(weights, config, rows, length)


def memory_bytes(weights: int, config: dict[str, Any], rows: int = 0, length: int = 0) -> Memory:
    """Return the memory of a model of `weights` bytes that trains on `rows` examples of `length` tokens; 0 rows: none.

    `config` is its config.json; where that does not name its width and its layers, no activations are counted.
    """
    width, layers = (config.get(key) or 0 for key in ("hidden_size", "num_hidden_layers"))
    if not rows:
        return Memory(_BASE_BYTES + weights, _ENCODED_TOKENS * width * _STATES)
    heads = config.get("num_attention_heads") or 0
    token = layers * (_STATES * width + 10 * heads * length)  # 10: scores and weights of attention and their dropout
    return Memory(_BASE_BYTES + _COPIES * weights, _TEXTS * rows * length * token)


@dataclass(frozen=True)
class Share:
    """The resources that Ray reserves for one encoder: CPUs, GPUs (or a fraction of one) and bytes of memory."""

    cpus: int
    gpus: float
    memory: int

    @classmethod
    def of(
        cls, nodes: Sequence[dict[str, float]], device: str, encoders: int, need: Memory, gpu_bytes: int | None = None
    ) -> Share:
        """Divide the cluster between the encoders, so that each machine can run at least one.

        `nodes` are the machines' resources as Ray names them; `need` is the memory of this encoder, whose activations
        are on the GPU if there is one, and `gpu_bytes` that of the smallest GPU. Encoders share a GPU only if its
        memory is known and there are more encoders than GPUs. Raises UsageError where the cluster has no CPU, or no
        GPU where one is required.
        """
        wanted = [node for node in nodes if node.get("CPU", 0) >= 1]
        with_gpu = [node for node in wanted if node.get("GPU", 0) >= 1]
        if device.startswith("cuda") and not with_gpu:
            raise UsageError(f"--device {device}: no machine of the Ray cluster has a GPU; give auto or cpu.")
        use_gpu = bool(with_gpu) and device != "cpu"
        wanted = with_gpu if use_gpu else wanted
        if not wanted:
            raise UsageError("--executor ray: no machine of the cluster offers a CPU; start one with `ray start`.")
        places = sum(node["GPU"] if use_gpu else node["CPU"] for node in wanted)
        at_once, on_one = max(min(places, encoders), 1), 1
        if use_gpu and gpu_bytes:
            cores = min(node["CPU"] // node["GPU"] for node in wanted)
            most = min(gpu_bytes // sum(need), -(-encoders // places), cores, _AT_ONCE)
            while 2 * on_one <= most:  # powers of two, so that what different encoders leave of a GPU fits others
                on_one *= 2
        cpus = max(int(sum(node["CPU"] for node in wanted) // at_once // on_one), 1)
        least = min(node.get("memory", 0.0) for node in wanted)
        smallest = int(min(node["CPU"] for node in wanted))
        memory = need.process if use_gpu else sum(need)
        return cls(min(cpus, smallest), 1 / on_one if use_gpu else 0, min(memory, int(least)))


def said_shares(shares: Sequence[Share]) -> str:
    """Return what the encoders have, from the smallest to the largest share."""

    def span(values: Sequence[float], digits: int = 0) -> str:
        low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
        return low if low == high else f"{low} to {high}"

    cpus, memory = [share.cpus for share in shares], [share.memory / 2**30 for share in shares]
    texts = [f"{span(cpus)} core{'s' * (max(cpus) > 1)}"]
    if any(share.gpus for share in shares):
        gpus = sorted({f"1/{round(1 / share.gpus)}" if share.gpus < 1 else "1" for share in shares})
        texts.append(f"{' or '.join(reversed(gpus))} GPU")
    return f"an encoder has {', '.join(texts)} and {span(memory, 1)} GiB"


def gpu_memory(listed: str) -> int | None:
    """Return the bytes of the smallest GPU that `nvidia-smi --query-gpu=memory.total` lists (MiB); None without any."""
    found = [int(line) << 20 for line in listed.split() if line.isdecimal()]
    return min(found, default=None)
