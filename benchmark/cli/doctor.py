"""`zoo-bench doctor`: what this machine has, what the project found, what is missing."""

from __future__ import annotations

import platform
import shutil

import click

from benchmark.cli.options import data_option, say
from benchmark.data.overview import data_rows
from benchmark.run.cache import cache_bytes, embeddings_folder
from zoo import __version__
from zoo.engine.backbone import find_backbone
from zoo.engine.named import BUNDLED
from zoo.errors import ZooError
from zoo.files import check_writable
from zoo.hardware import choose_precision, cpu_bf16, environment
from zoo.paths import cache_folder
from zoo.registry import METHODS


def doctor_command(data: str | None) -> int:
    """Print the findings; returns 1 when something that every run needs is broken."""
    import torch

    problems = 0
    facts = environment("cpu")
    say(f"zoo-bench {__version__}, Python {platform.python_version()}, {platform.platform()}")
    say("packages: " + ", ".join(f"{name} {version}" for name, version in facts["packages"].items()))
    say(f"cpu: {facts['cpu']}, {facts['threads']} threads")
    rates = cpu_bf16()
    if rates["bfloat16"] is None:
        say("cpu bfloat16: none, or not usable")
    else:
        cap = f", oneDNN capped at {rates['isa_cap']} (more kills the process here)" if rates["isa_cap"] else ""
        say(f"cpu matrix speed: float32 {rates['float32']:.0f}, bfloat16 {rates['bfloat16']:.0f} GFLOP/s{cap}")
    say(f"precision on cpu: {choose_precision('auto', 'cpu')}")
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            memory = torch.cuda.get_device_properties(i).total_memory / 2**30
            precision = choose_precision("auto", f"cuda:{i}")
            say(f"cuda:{i}: {torch.cuda.get_device_name(i)}, {memory:.0f} GiB, precision {precision}")
    else:
        say(f"cuda: none usable (torch {torch.__version__})")
    for name in BUNDLED:
        try:
            say(f"backbone {name}: bundled, sha256 {find_backbone(name).sha256[:16]}")
        except ZooError as error:
            problems += 1
            say(f"backbone {name}: BROKEN: {error}")
    cache = cache_folder()
    try:
        check_writable(cache)
        free = shutil.disk_usage(cache).free / 2**30
        say(f"cache: {cache}, writable, {free:.1f} GiB free")
    except ZooError as error:
        problems += 1
        say(f"cache: BROKEN: {error}")
    say(f"embedding cache: {embeddings_folder()}, {cache_bytes() / 10**9:.2f} GB (may be deleted at any time)")
    for name, form, rows, found, _ in data_rows(data):
        say(f"data {name} ({form}): {found}; {rows}")
    list(METHODS.load_all())
    for name, reason in METHODS.broken().items():
        say(f"plugin {name}: BROKEN: {reason}")
    return 1 if problems else 0


@click.command("doctor")
@data_option
def command(data: str | None) -> int:
    """Show versions, devices, precision, data, cache and disk."""
    return doctor_command(data)
