"""Builds records: the scores of a cell with its identity, its conditions, the code and the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

from benchmark.identity import PROTOCOL_VERSION
from benchmark.records.schema import (
    SCHEMA_VERSION,
    Environment,
    MeasuredPart,
    MethodPart,
    MethodTraits,
    Record,
)
from benchmark.run.measure import Measured
from benchmark.run.options import NamedRunFile
from benchmark.run.plan import EncoderPlan
from zoo import __version__
from zoo.encoder import Runtime
from zoo.hardware import utc_now
from zoo.identity import commit
from zoo.recipe import portable_recipe


def record_of(
    plan: EncoderPlan,
    measured: Measured,
    *,
    runtime: Runtime,
    limit: int | None,
    environment: Environment,
    command: Sequence[str],
    run_file: NamedRunFile | None = None,
) -> Record:
    """Return the record of a measured, failed or n/a cell."""
    file = {"run_file": dataclasses.asdict(run_file)} if run_file else {}
    seeds = {"seeds": plan.seeds} if plan.seeds else {}
    cell, data = measured.cell, measured.cell.task.data
    method: MethodPart = {
        "name": plan.name,
        "class": f"{plan.cls.__module__}.{plan.cls.__qualname__}",
        "recipe": portable_recipe(plan.recipe, plan.sources),
        "sources": plan.sources,
        "traits": cast("MethodTraits", dataclasses.asdict(plan.traits)),
    }
    if plan.recipe_name is not None:
        method["recipe_name"] = plan.recipe_name
    if plan.unstated:
        method["unstated"] = list(plan.unstated)
    return {
        "schema": SCHEMA_VERSION,
        "protocol": PROTOCOL_VERSION,
        "key": cell.key,
        "encoder_key": plan.key,
        "row_key": plan.row_key,
        "status": measured.status,
        "reason": measured.reason,
        "method": method,
        "task": {
            **cell.task.identity(),
            "source": None if data is None else data.located.source,
            "rows": None if data is None else data.rows,
        },
        "seed": plan.seed,
        "precision": plan.traits.precision or runtime.precision,
        "limit": limit,
        "scores": None,
        "coverage": None,
        "training": None,
        "encoding": None,
        "adapt": None,
        "facts": {},
        "environment": environment,
        "started": utc_now(),
        "seconds": 0.0,
        "version": __version__,
        "code": {"commit": commit(), "digest": plan.code, "scorer": cell.scorer},
        "command": list(command),
        **cast("MeasuredPart", {**file, **seeds, **measured.more}),
    }
