"""What `run --dry-run` says before a run and while it runs: what is done, running, failed, or would be n/a, and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from benchmark.data.sources import each_cause_once, in_one
from benchmark.reasons import in_a_line
from benchmark.records.folder import Records
from benchmark.run.estimate import memory_of
from benchmark.run.plan import EncoderPlan, Run
from benchmark.run.runner import is_locked
from zoo.engine.backbone import finding_once
from zoo.errors import error_text
from zoo.limits import memory_here
from zoo.progress import counted


@dataclass(frozen=True)
class Preflight:
    """The encoders of a run with their finished cells, and the reasons why cells would be n/a, with these cells."""

    encoders: list[dict[str, Any]]
    reasons: dict[str, list[str]] = field(default_factory=dict)
    # The bytes that the largest training needs, roughly.
    memory: int = 0
    failed: dict[str, list[str]] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return sum(encoder["cells"] for encoder in self.encoders)

    @property
    def done(self) -> int:
        return sum(encoder["done"] for encoder in self.encoders)

    @property
    def missing(self) -> int:
        """How many would be n/a."""
        return sum(map(len, self.reasons.values()))

    def lines(self) -> list[str]:
        """Return the sum, each reason once with what it is about, and memory that does not suffice."""
        failed = sum(map(len, self.failed.values()))
        now = f", {failed} failed and would be tried again" if failed else ""
        lines = [f"{counted(self.cells, 'cell')}: {self.done} done{now}, {self.missing} would be n/a."]
        for what, reasons in (("failed", self.failed), ("n/a", self.reasons)):
            for reason, about in reasons.items():
                lines.append(in_a_line(what, reason, about))
        if 0 < memory_here() < self.memory:
            gib = [f"{value / 2**30:.1f}" for value in (self.memory, memory_here())]
            lines.append(f"A training may need {gib[0]} GiB of memory; this machine has {gib[1]}.")
        return lines


@finding_once(weights=True)
def preflight(run: Run) -> Preflight:
    """Look at every encoder of a prepared run: each row's encoder is made once, so that a wrong folder shows now."""
    records = Records(run.options.results)
    broken: dict[str, str] = {}
    listed, reasons, failed, absent = [], defaultdict(list), defaultdict(list), list[str]()
    for plan in run.encoders:
        row, inputs = plan.row, plan.inputs
        finished = [cell for cell in plan.cells if records.finished(row.name, cell.task.name, cell.key) is not None]
        done = [] if run.options.remeasure else finished
        if inputs.row_key not in broken:
            cause = "" if len(done) == len(plan.cells) else _made(plan, run)
            broken[inputs.row_key] = inputs.missing or inputs.failed or cause
        reason = broken[inputs.row_key]
        for cell in plan.cells:
            if cell in done:
                continue
            if reason:
                reasons[reason].append(plan.title)
            elif cell.task.data is None:
                absent.append(cell.task.reason or "no data")
            elif failure := records.failure(row.name, cell.task.name, cell.key):
                failed[failure].append(plan.title)
        listed.append(
            {
                "method": row.name,
                "title": plan.title,
                "control": row.control,
                "seed": plan.seed,
                "cells": len(plan.cells),
                "done": len(done),
                "running": len(done) < len(plan.cells) and is_locked(records.encoder_folder(row.name, plan.key)),
                "missing": reason or None,
            }
        )
    for several in each_cause_once(absent).values():
        reasons[in_one(several)] += [""] * sum(map(absent.count, several))
    trained = [plan for plan in run.encoders if plan.row.trained and not broken[plan.inputs.row_key]]
    memory = max(map(memory_of, trained), default=0)
    return Preflight(listed, dict(reasons), memory, dict(failed))


def _made(plan: EncoderPlan, run: Run) -> str:
    """Return why the encoder cannot be made, "" where it can."""
    try:
        if plan.row.given is None:
            plan.row.cls.check_recipe(plan.row.recipe, run.runtime)
    except Exception as error:
        # The boundary to methods of plugins and to model folders: whatever one raises would fail its cells.
        return error_text(error)
    return ""
