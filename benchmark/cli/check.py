"""`zoo-bench check`: does a method keep the Encoder contract?"""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import load_plugins, plugin_option, say
from zoo.conformance import check
from zoo.encoder import Runtime
from zoo.errors import said
from zoo.hardware import make_runtime
from zoo.recipe import all_recipes, parse_methods
from zoo.registry import METHODS


@click.command("check")
@click.argument("method", type=METHODS_LIST)
@click.option("--backbone", help="Backbone to check it on [default: zoo-small].")
@click.option("--device", default="cpu", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="fp32", show_default=True)
@plugin_option
def command(method: str, backbone: str | None, device: str, precision: str, plugins: tuple[Path, ...]) -> int:
    """Test in seconds that a method keeps the Encoder contract."""
    load_plugins(plugins)
    specs = parse_methods(method, all_recipes())
    runtime = make_runtime(device, precision)
    failures = 0
    for spec in specs:
        # `pretrained` without a model names no encoder; the bundled model with a pooling is used instead.
        extra = {"pooling": "mean"} if spec.method == "pretrained" and not spec.parameters else {}
        cls, recipe = spec.resolve({**extra, **({"backbone": backbone} if backbone else {})})
        quiet = Runtime(runtime.device, runtime.precision)
        for what, problem in check(cls, recipe, quiet, spec.name):
            failures += problem is not None
            say(f"ok    {spec.name}: {what}" if problem is None else f"FAIL  {spec.name}: {what}: {problem}")
        named, problem = True, None
        if not METHODS.is_builtin(spec.method):
            try:
                named = bool(cls.sources(recipe, quiet))
            except (Exception, SystemExit) as error:  # whatever a method raises is reported as the problem
                problem = said(error)
        if problem is not None:
            failures += 1
            say(f"FAIL  {spec.name}: sources: {problem}")
        if not named:
            say(
                f"note  {spec.name}: sources() names no file; where the method reads weights or vectors of its own,"
                " return their name and sha256 there, so that records show what a score was made with"
            )
    return 1 if failures else 0
