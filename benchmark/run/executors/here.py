"""Carries out a run in this process; every other executor does so in the processes that it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmark.run.cache import EmbeddingCache
from benchmark.run.executors import Executor, Job, load_plugins
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome, Runner
from zoo.errors import UsageError
from zoo.paths import address_of
from zoo.progress import Progress


class Here(Executor):
    """Trains and measures one encoder after the other in this process."""

    takes_objects = True

    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Carry out the job here."""
        if job.options.workers > 1:
            raise UsageError(f"--workers {job.options.workers}: --executor here is one process; leave out one of both.")
        prepared = job.prepare()
        return prepared, runner_of(prepared, job).run(prepared.plan)


def runner_of(prepared: Prepared, job: Job) -> Runner:
    """Return a runner that carries out a prepared job in this process."""
    options = job.options
    return Runner(
        options.results,
        prepared.runtime,
        dev=prepared.dev,
        limit=options.limit,
        fail_fast=options.fail_fast,
        remeasure=options.remeasure,
        command=job.command,
        trackers=options.trackers(),
        run_file=options.file,
        cache=EmbeddingCache(options.embedding_cache, prepared.runtime.progress.say)
        if options.embedding_cache
        else None,
    )


def work(job: Job) -> dict[str, Any]:
    """Carry out a job in a process that an executor started elsewhere; returns what it did as plain values.

    `Outcome(**values)` reads them again.
    """
    load_plugins(job.plugins)
    address = address_of(job.options.results)
    if address is None:
        return Here().run(job)[1].as_values()
    from benchmark.records.remote import mirrored, sending

    job = replace(job, options=replace(job.options, results=mirrored(address)))  # another machine has its own mirror
    with sending(job.options.results, (job.progress or Progress()).say) as unsent:
        _, outcome = Here().run(job)
    outcome.failed += unsent
    return outcome.as_values()
