"""Devices and precision: asked for and absent is an error, automatic falls back."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zoo import machine
from zoo.errors import UsageError
from zoo.machine import (
    bf16_in_float32,
    choose_device,
    choose_precision,
    cpu_bf16,
    encodes_in_float32,
    environment,
    forget_peak_memory,
    keep_few_kernels,
    peak_memory_mb,
    utc_now,
    version_of,
)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(autouse=True)
def _no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "x")  # so that it is put back whatever the test leaves
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")


def tried(monkeypatch: pytest.MonkeyPatch, bf16: bool, cap: str | None = None, speedup: float = 2.0) -> None:
    answer = {"bfloat16": bf16, "isa_cap": cap, "flags": [], "speedup": speedup}
    monkeypatch.setattr(machine, "cpu_bf16", lambda: answer)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "cuda:3"])
def test_a_gpu_that_is_not_there_is_an_error_naming_it(wanted: str) -> None:
    with pytest.raises(UsageError, match=f"--device {wanted}: no usable CUDA GPU.*--device auto or cpu") as caught:
        choose_device(wanted)
    assert caught.value.exit_code == 2 and torch.__version__ in str(caught.value)


@pytest.mark.usefixtures("no_gpu")
def test_automatic_falls_back_to_the_cpu() -> None:
    assert choose_device("auto") == "cpu"
    assert choose_device("cpu") == "cpu"


def test_automatic_takes_a_gpu_and_a_number_too_high_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == "cuda"
    with pytest.raises(UsageError, match=r"cuda:2: this machine has 2 CUDA"):
        choose_device("cuda:2")


def test_an_apple_gpu_is_taken_by_name_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"--device mps: no usable Apple GPU .*--device auto or cpu"):
        choose_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("mps") == "mps"
    assert [choose_precision(wanted, "mps") for wanted in ("auto", "fp32")] == ["fp32", "fp32"]
    for wanted in ("bf16", "fp16"):
        with pytest.raises(UsageError, match=f"--precision {wanted}: mps computes in float32"):
            choose_precision(wanted, "mps")
    assert str(environment("mps")["gpu"]).endswith("(mps)") and environment("mps")["cuda"] is None
    with pytest.raises(UsageError, match="only cpu, cuda and mps"):
        choose_device("meta")


@pytest.mark.parametrize(
    ("bf16", "speedup", "cap", "chosen"),
    [
        (False, 0.0, None, "fp32"),
        (True, 0.4, None, "fp32"),
        (True, 1.29, None, "fp32"),
        (True, 1.3, None, "bf16"),
        (True, 3.5, "AVX512_CORE_BF16", "bf16"),
    ],
)
def test_automatic_precision_follows_the_measured_products(
    monkeypatch: pytest.MonkeyPatch, bf16: bool, speedup: float, cap: str | None, chosen: str
) -> None:
    tried(monkeypatch, bf16, cap=cap, speedup=speedup)
    assert choose_precision("auto", "cpu") == chosen
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == cap


def test_a_cap_that_the_cpu_needs_is_set_before_onednn_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    tried(monkeypatch, True, cap="AVX512_CORE_BF16")
    assert choose_precision("fp32", "cpu") == "fp32" and "ONEDNN_MAX_CPU_ISA" not in os.environ
    assert choose_precision("bf16", "cpu") == "bf16"
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"


@pytest.mark.parametrize(("has", "chosen"), [(True, "bf16"), (False, "fp16")])
def test_precision_on_a_gpu_follows_the_gpu(monkeypatch: pytest.MonkeyPatch, has: bool, chosen: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: has)
    assert choose_precision("auto", "cuda") == chosen
    assert choose_precision("fp32", "cuda") == "fp32"
    if not has:
        with pytest.raises(UsageError, match="no bfloat16"):
            choose_precision("bf16", "cuda:0")


class Child:
    """Stands for the process of the trial: dies of the first caps, lives with the last."""

    def __init__(self, deaths: int) -> None:
        self.deaths, self.caps = deaths, list[str | None]()

    def __call__(self, *_: Any, env: dict[str, str], **__: Any) -> subprocess.CompletedProcess[str]:
        self.caps.append(env.get("ONEDNN_MAX_CPU_ISA"))
        code = -4 if len(self.caps) <= self.deaths else 0
        return subprocess.CompletedProcess([], code, "" if code else "[0.03, 0.012]", "")


@pytest.mark.parametrize("supported", [True, False, None])
def test_bf16_is_multiplied_in_float32_where_the_cpu_or_the_build_has_no_products_for_it(
    supported: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = {} if supported is None else {"_is_mkldnn_bf16_supported": lambda: supported}
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**has))
    asked = bf16_in_float32.__wrapped__
    assert asked("cpu") == (not supported) and not asked("cuda") and not asked("mps")


@pytest.mark.parametrize(
    ("flags", "cap", "wide"),
    [
        (["amx_bf16"], "", True),
        (["amx_bf16"], "AVX512_CORE_BF16", False),
        (["amx_bf16"], "avx512_core_amx", True),
        (["avx512_bf16"], "", False),
    ],
)
def test_amx_does_not_encode_where_it_would_multiply(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], cap: str, wide: bool
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", cap)
    monkeypatch.setattr(machine, "_cpu_flags", lambda: flags)
    monkeypatch.setattr(machine, "bf16_in_float32", lambda device: False)
    assert encodes_in_float32.__wrapped__("cpu") == wide and not encodes_in_float32.__wrapped__("cuda")


@pytest.mark.parametrize(("deaths", "cap", "bf16"), [(0, None, True), (1, "AVX512_CORE_BF16", True), (2, None, False)])
def test_a_cpu_whose_bf16_kills_is_tried_in_a_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deaths: int, cap: str | None, bf16: bool
) -> None:
    child = Child(deaths)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(machine.subprocess, "run", child)
    monkeypatch.setattr(machine, "_cpu_flags", lambda: ["amx_bf16"])
    for _ in range(2):  # the second time from the file
        about = cpu_bf16.__wrapped__()
        assert (about["isa_cap"], about["bfloat16"], about["speedup"]) == (cap, bf16, 2.5 if bf16 else 0.0)
    assert child.caps == [None, "AVX512_CORE_BF16"][: min(deaths + 1, 2)]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("changed", ["cpu_name", "_cpu_flags", "torch"])
def test_a_measurement_is_kept_for_its_processor_and_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    child = Child(0)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(machine.subprocess, "run", child)
    cpu_bf16.__wrapped__()
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # neither the threads nor another process change the choice
    cpu_bf16.__wrapped__()
    assert len(child.caps) == 1
    if changed == "torch":
        monkeypatch.setattr(machine.importlib.metadata, "version", lambda _: "9.9")
    else:
        monkeypatch.setattr(machine, changed, lambda: "another")
    cpu_bf16.__wrapped__()
    assert len(child.caps) == 2 and len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_the_products_are_really_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    about = cpu_bf16.__wrapped__()
    assert about["speedup"] > 0 if about["bfloat16"] else about["speedup"] == 0


def test_time_is_utc_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime

    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        stated = datetime.datetime.fromisoformat(utc_now())
        assert stated.utcoffset() == datetime.timedelta(0)
        assert abs((datetime.datetime.now(datetime.UTC) - stated).total_seconds()) < 5
    finally:
        monkeypatch.undo()
        time.tzset()


def test_environment_is_plain_and_peak_memory_positive() -> None:
    stated = environment("cpu")
    assert json.loads(json.dumps(stated)) == stated
    assert stated["packages"]["torch"] == torch.__version__ and stated["gpu"] is None
    assert (peak_memory_mb("cpu") or 0) > 50


@pytest.mark.parametrize(
    ("wheel", "file", "version"),
    [
        ("2.14.1", "__version__ = '2.14.1+cu130'\n", "2.14.1+cu130"),
        ("2.13.0+cpu", "from typing import Optional\n__version__ = '2.13.0+cpu'\ndebug = False\n", "2.13.0+cpu"),
        ("2.15.0", "", "2.15.0"),
        ("2.12.0a0", None, "2.12.0a0"),
    ],
)
def test_a_version_names_the_build_in_one_way(
    wheel: str, file: str | None, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    if file is not None:
        (tmp_path / "torch" / "version.py").write_text(file)
    of_wheel = {"torch": wheel}
    monkeypatch.setattr("importlib.metadata.version", lambda name: of_wheel[name])
    spec = SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert version_of("torch") == version


@pytest.mark.slow
@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="no system that lets a process forget its peak"
)
def test_the_peak_of_one_job_is_not_that_of_the_job_before() -> None:
    forget_peak_memory("cpu")
    before = peak_memory_mb("cpu")
    with mmap.mmap(-1, 2**28) as big:  # of its own: malloc may have room that other tests left
        for _ in range(256):
            big.write(b"x" * 2**20)
        with_it = peak_memory_mb("cpu")
    forget_peak_memory("cpu")
    after = peak_memory_mb("cpu")
    assert before is not None and with_it is not None and after is not None
    assert with_it > before + 200 and after < with_it - 200


KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def test_few_kernels_are_kept_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNELS[0], "500")
    monkeypatch.setenv(KERNELS[1], "")  # so that it is put back
    monkeypatch.delenv(KERNELS[1])
    keep_few_kernels()
    assert [os.environ[name] for name in KERNELS] == ["500", "16"]
