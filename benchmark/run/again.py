"""What another process needs to prepare the run of a command again, and to find its part of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Request, Run
from benchmark.run.prepare import prepare
from benchmark.tasks import TASKS
from zoo.errors import ZooError
from zoo.plugins import METHODS, load_plugin_file
from zoo.progress import Progress


def load_plugins(paths: Iterable[Path]) -> dict[Path, str]:
    """Run plugin files, which register methods and tasks; returns the broken ones with the reason."""
    reasons = {path: load_plugin_file(path, [METHODS, TASKS]) for path in paths}
    return {path: reason for path, reason in reasons.items() if reason is not None}


def for_worker(run: Run, options: RunOptions) -> Request:
    """Return what another process needs to prepare the same run, and to print what it does."""
    progress = Progress(enabled=run.runtime.progress.enabled)
    return replace(run.request, options=options, progress=progress, texts={})


def prepared(request: Request) -> Run:
    """Return the run of a command as a worker prepares it, which prints nothing of that."""
    progress = request.progress or Progress()
    run = prepare(replace(request, progress=Progress.silent()), write=False)
    return replace(run, runtime=replace(run.runtime, progress=progress))


def planned(run: Run, key: str) -> EncoderPlan:
    """Return the plan that the command gave a worker; raises ZooError where the worker plans another run."""
    for plan in run.encoders:
        if plan.key == key:
            return plan
    place = f"{socket.gethostname()}-{os.getpid()}"
    raise ZooError(f"{place} plans another run: its data, weights or code differ from those of the command.")
