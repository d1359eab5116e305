"""A worked executor in one file: each encoder of a run is a Slurm job, submitted by submitit.

Use it without installing: zoo-bench run --plugin zoo_bench_slurm.py --executor slurm://PARTITION --methods simcse ...
or install it once:        pip install ./examples/zoo-bench-slurm && zoo-bench run --executor slurm --methods simcse ...
To try it without Slurm:   --executor slurm://local makes each job a process of this machine

All machines must see the results folder. With --workers N there are N jobs, each of which takes a part of the encoders.
"""

from __future__ import annotations

import time
from dataclasses import replace

import submitit

from benchmark.run.executors import EXECUTORS, Executor, Job
from benchmark.run.executors.here import work
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome
from benchmark.run.stop import Stop
from zoo.errors import UsageError


@EXECUTORS.register("slurm")
class Slurm(Executor):
    """Submits the parts of a run to a Slurm partition, waits for them, and adds up what they did."""

    def __init__(self, address: str | None = None) -> None:
        self.partition = address

    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Carry out the job as one Slurm job for each encoder, or as `workers` jobs."""
        if job.options.shard is not None:
            raise UsageError(f"--shard {job.options.shard}: --executor slurm makes the parts itself; leave it out.")
        prepared, results = job.prepare(), job.options.results.resolve()
        count = job.options.workers if job.options.workers > 1 else len(prepared.plan.encoders)
        slurm = submitit.AutoExecutor(results / "slurm", cluster="local" if self.partition == "local" else "slurm")
        slurm.update_parameters(name="zoo-bench", timeout_min=480, cpus_per_task=4, gpus_per_node=0)
        if self.partition not in (None, "local"):
            slurm.update_parameters(slurm_partition=self.partition)
        options = [replace(job.options, results=results, shard=f"{i}/{count}") for i in range(1, count + 1)]
        jobs = slurm.map_array(
            work, [replace(job, options=replace(one, executor="here", workers=1)) for one in options]
        )
        with Stop().listening() as stop:
            while not all(one.done() for one in jobs) and stop() is None:
                time.sleep(1)
            for one in jobs if stop() is not None else ():
                one.cancel()
            stop.check()
        outcome = Outcome()
        for one in jobs:
            try:
                outcome.add(Outcome(**one.result()))
            except Exception as error:  # submitit raises its own for a lost job, and that of the job for a failed one
                outcome.failed.append((f"Slurm job {one.job_id}", str(error).strip().splitlines()[-1]))
        return prepared, outcome
