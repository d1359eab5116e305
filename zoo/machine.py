"""The machine's devices, and bfloat16's presence and speed on it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import UsageError, ZooError
from zoo.files import read_signed, sha256_json, write_signed
from zoo.paths import cache_folder
from zoo.progress import Progress


def _no_signal() -> None:
    """None; a named function, because runtimes are sent to other processes."""


@dataclass(frozen=True)
class Runtime:
    """Where and how an encoder computes; never part of a recipe.

    Attributes:
        device: A device of torch, such as "cpu" or "cuda:1".
        precision: "fp32", "bf16" or "fp16" (autocast; pooling and scoring stay float32).
        token_budget: The padded tokens of a batch; None takes a default for the device.
        allow_pickle: Permission to read weights from a pickle, which can run code.
        cuda_graphs: Training captures its steps as CUDA graphs, if loss and optimiser allow it.
        progress: The place of progress.
        stop_signal: Returns the number of a received signal, or None; encoding asks after each batch and may stop.
    """

    device: str = "cpu"
    precision: str = "fp32"
    token_budget: int | None = None
    allow_pickle: bool = False
    cuda_graphs: bool = False
    progress: Progress = field(default_factory=Progress.silent)
    stop_signal: Callable[[], int | None] = _no_signal


# Some virtual machines report AMX but kill a process that uses it; the second value limits oneDNN to AVX-512.
_ISA_CAPS = (None, "AVX512_CORE_BF16")
# bfloat16 loses precision, so its products have to be clearly faster; the measured ratios are near 1 or above 2.
_FASTER = 1.3
# Seconds for which other work on the machine is looked at.
_LOOK = 0.25

# One thread, because other processes disturb several more; alternating, because their load changes.
_PROBE = """
import json, statistics, time, torch
torch.set_num_threads(1)
def seconds(x, w):
    started = time.perf_counter()
    torch.nn.functional.linear(x, w)
    return time.perf_counter() - started
with torch.inference_mode():
    q = torch.randn(1, 4, 512, 64, dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    single = torch.randn(1024, 512), torch.randn(1024, 512)
    half = tuple(one.bfloat16() for one in single)
    seconds(*single), seconds(*half)
    pairs = [(seconds(*single), seconds(*half)) for _ in range(9)]
print(json.dumps([statistics.median(times) for times in zip(*pairs)]))
"""


def _cpu_line(*starts: str) -> str:
    """The value of the first such line of /proc/cpuinfo, or an empty text."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    line = next((line for line in text.splitlines() if line.startswith(starts)), "")
    return line.partition(":")[2].strip()


def cpu_name() -> str:
    return _cpu_line("model name") or platform.processor() or platform.machine()


def _cpu_flags() -> list[str]:
    # "Features" is ARM's name.
    flags = _cpu_line("flags", "Features").split()
    return [flag for flag in flags if flag.startswith(("amx", "avx512_bf16", "bf16"))]


def bf16_file() -> tuple[dict[str, Any], Path]:
    version = importlib.metadata.version("torch")
    cpu = {"cpu": cpu_name(), "flags": _cpu_flags(), "torch": version}
    return cpu, cache_folder() / f"bf16-{sha256_json(cpu)[:16]}.json"


@functools.cache
def cpu_bf16() -> dict[str, Any]:
    """`bfloat16` (usable on the processor or not), the `isa_cap` it needs, and its `speedup`.

    The speedup is the median time of a float32 product over the same in bfloat16, measured once, in a process of its
    own because it may crash, and cached for this processor and torch.
    """
    cpu, path = bf16_file()
    try:
        return read_signed(path)
    except ZooError:
        pass
    measured: dict[str, Any] = {**cpu, "bfloat16": False, "isa_cap": None, "speedup": 0.0}
    for cap in _ISA_CAPS:
        environment = {**os.environ, **({"ONEDNN_MAX_CPU_ISA": cap} if cap else {})}
        child = subprocess.run([sys.executable, "-c", _PROBE], env=environment, capture_output=True, text=True)
        if child.returncode == 0:
            single, half = json.loads(child.stdout)
            measured |= {"bfloat16": True, "isa_cap": cap, "speedup": round(single / half, 2)}
            break
    try:
        write_signed(path, measured)
    except ZooError:
        return measured
    return measured


def choose_device(wanted: str) -> str:
    """`wanted`, or "cuda" or "cpu" for "auto"; raises UsageError for an absent device."""
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise UsageError(f"--device {wanted!r} is not a device; use auto, cpu, cuda, cuda:N or mps.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
        raise UsageError(
            f"--device {wanted}: no usable CUDA GPU (torch {torch.__version__} is {built}). Use --device auto or cpu."
        )
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise UsageError(
            f"--device {wanted}: this machine has {torch.cuda.device_count()} CUDA GPU(s), counted from 0."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError(
            f"--device {wanted}: no usable Apple GPU (torch {torch.__version__}, {platform.system()}"
            f" {platform.machine()}). Use --device auto or cpu."
        )
    if device.type not in ("cpu", "cuda", "mps"):
        raise UsageError(f"--device {wanted}: only cpu, cuda and mps are supported.")
    if device.index is not None and device.type == "cuda":
        torch.cuda.set_device(device)
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Choose a precision; "auto" is bf16, else fp16 on a GPU; fp32 on Apple's; bf16 on a CPU if 1.3 times as fast."""
    import torch

    if device.startswith("cuda"):
        if wanted == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            raise UsageError("--precision bf16: this GPU has no bfloat16; use --precision fp16.")
        if wanted == "auto":
            return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
        return wanted
    if wanted == "fp32":
        return "fp32"
    if device.startswith("mps"):
        if wanted == "auto":
            return "fp32"
        raise UsageError(f"--precision {wanted}: mps computes in float32 here; use --precision auto or fp32.")
    if wanted == "fp16":
        raise UsageError("--precision fp16: only for GPUs; use --precision fp32 or bf16.")
    measured = cpu_bf16()
    if not measured["bfloat16"]:
        if wanted == "bf16":
            raise UsageError("--precision bf16: bfloat16 does not run on this CPU; use --precision fp32.")
        return "fp32"
    if wanted == "auto" and measured["speedup"] < _FASTER:
        return "fp32"
    if measured["isa_cap"]:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", measured["isa_cap"])
    return "bf16"


@functools.cache
def bf16_in_float32(device: str) -> bool:
    """True where bfloat16 is multiplied in float32: on a CPU that would need fifty times as long for it."""
    import torch

    # Absent from builds without oneDNN.
    fast = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return device == "cpu" and not (fast and fast())


@functools.cache
def encodes_in_float32(device: str) -> bool:
    """True where encoding multiplies bfloat16 in float32, also as AMX splits long sums by rows and threads."""
    cap = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    amx = "amx_bf16" in _cpu_flags() and ("AMX" in cap or not cap.startswith(("AVX", "SSE")))
    return device == "cpu" and (amx or bf16_in_float32(device))


@functools.cache
def product_rate(device: str, precision: str) -> float:
    """FLOP a second of a GPU in a small encoder's product."""
    import torch

    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    x, w = (torch.ones(rows, 384, device=device, dtype=narrow) for rows in (8192, 1536))
    wait = getattr(torch, torch.device(device).type).synchronize

    def product() -> None:
        torch.nn.functional.linear(x, w)
        wait()

    return 2.0 * 8192 * 384 * 1536 / _fastest(product, time.perf_counter, 20)


@functools.cache
def layer_rate(precision: str, *, training: bool) -> float:
    """FLOP a second of a CPU core in the products of a small encoder's layer, without dropout, all else beside them."""
    import torch

    narrow = precision == "bf16" and not (bf16_in_float32 if training else encodes_in_float32)("cpu")
    width, inner, texts, tokens = 384, 1536, 64, 32
    if training:
        # As the training will.
        keep_freed_memory()
    with torch.random.fork_rng(devices=[]):
        layer = torch.nn.TransformerEncoderLayer(width, 12, inner, 0.0, "gelu", batch_first=True).train(training)
        states = torch.rand(texts, tokens, width, requires_grad=training)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow), torch.set_grad_enabled(training):
            after = layer(states)
        if training:
            after.float().sum().backward()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # On a CPU without what the thread waits for other work on the machine.
        seconds = _fastest(step, time.thread_time, 4)
    finally:
        torch.set_num_threads(threads)
    # A forward pass is one product, its backward pass two.
    return 2.0 * (4 * width**2 + 2 * width * inner) * texts * tokens * (3 if training else 1) / seconds


def _fastest(work: Callable[[], None], clock: Callable[[], float], times: int) -> float:
    """The fastest of so many: others were disturbed, and the first one loads the kernels."""
    seconds = []
    for _ in range(times):
        started = clock()
        work()
        seconds.append(clock() - started)
    return min(seconds)


def stretch_now(threads: int) -> float:
    """Slowdown factor of work with so many threads by the machine's other work."""
    content = bytes(2**20)

    def ran(_: int) -> float:
        started, end = time.thread_time(), time.monotonic() + _LOOK
        while time.monotonic() < end:
            # Outside the interpreter's lock.
            hashlib.sha256(content)
        return time.thread_time() - started

    with ThreadPoolExecutor(threads) as pool:
        return max(threads * _LOOK / max(sum(pool.map(ran, range(threads))), 1e-3), 1.0)


def keep_freed_memory() -> None:
    """Keep freed large blocks (glibc only): clearing them again costs a fifth of a CPU step."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.system() == "Linux" else None
    if mallopt is not None:
        # M_MMAP_MAX and M_TRIM_THRESHOLD: take blocks of any size from the heap, and keep its top.
        mallopt(-4, 0)
        mallopt(-1, 2**31 - 1)


def keep_few_kernels() -> None:
    """Let oneDNN cache 16 matrix products (0.5 to 2 MB each), not 1,024, unless the environment sets a number."""
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "16")


def instructions() -> str:
    """The instructions that torch uses, the CPU's model, and variables that limit libraries."""
    import torch

    # Clouds give many models one name.
    model = [number for number in map(_cpu_line, ("cpu family", "model\t", "stepping")) if number]

    limits = ("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE")
    stated = [f"{name}={os.environ[name]}" for name in limits if name in os.environ]
    parts = [torch.backends.cpu.get_cpu_capability(), *_cpu_flags(), *(["/".join(model)] if model else []), *stated]
    return " ".join(parts)


def environment(device: str) -> dict[str, Any]:
    import torch

    cuda = device.startswith("cuda")
    gpu = torch.cuda.get_device_name(device) if cuda else f"{cpu_name()} (mps)" if device.startswith("mps") else None
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "instructions": instructions(),
        "gpu": gpu,
        "cuda": torch.version.cuda if cuda else None,
        "packages": dict(_versions()),
    }


def version_of(package: str) -> str:
    """Return an installed version; torch's has its build, such as 2.14.1+cu130, whatever the wheel's name states."""
    stated = importlib.metadata.version(package)
    spec = importlib.util.find_spec(package) if package == "torch" else None
    if spec is None or spec.origin is None:
        return stated
    file = Path(spec.origin).with_name("version.py")
    built = re.search(r"^__version__ = '([^']+)'", file.read_text("utf-8"), re.MULTILINE) if file.is_file() else None
    return built[1] if built else stated


@functools.cache
def _versions() -> dict[str, str]:
    packages = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "scipy", "scikit-learn")
    return {name: version_of(name) for name in packages}


def peak_memory_mb(device: str) -> float | None:
    """Peak memory so far in MiB: allocated on a GPU, else resident; None if unknown."""
    if device.startswith("cuda"):
        import torch

        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return round(int(status.partition("VmHWM:")[2].split()[0]) / 2**10, 1)
    except (OSError, IndexError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def make_runtime(
    device: str = "auto", precision: str = "auto", *, allow_pickle: bool = False, cuda_graphs: bool = False
) -> Runtime:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    chosen = choose_device(device)
    precision = choose_precision(precision, chosen)
    return Runtime(chosen, precision, allow_pickle=allow_pickle, cuda_graphs=cuda_graphs, progress=Progress())


def forget_peak_memory(device: str) -> float | None:
    """Reset the peak of `peak_memory_mb`; return MiB in use, None if impossible."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        if not device.startswith("cuda"):
            return None
    return peak_memory_mb(device)


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
