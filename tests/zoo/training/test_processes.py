"""Two processes on one machine train as one: the same weights, one writer, exact resume."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

PROGRAM = """
import atexit
import sys
from pathlib import Path
import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from zoo.encoder import Run, Runtime
from zoo.errors import Interrupted
from zoo.training.loop import Objective, train
from zoo.training.settings import TrainSettings
from zoo.training.processes import own_process

class Regression(Objective):
    mean_over_rows = True
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.draws = []
    def forward(self, x, y):
        self.draws.append(float(torch.rand(())))
        return ((self.layer(x) - y) ** 2).mean()

def left():
    if torch.distributed.is_initialized():
        print("still a member of its group", file=sys.stderr)

atexit.register(left)  # before the project's own, so that it runs after that
generator = torch.Generator().manual_seed(7)
x, y = torch.randn(29, 5, generator=generator), torch.randn(29, 3, generator=generator)
for job in sys.argv[1:]:  # one after the other: starting the processes takes longer than all that they do
    folder, stop_after, accumulate = Path(job.split(":")[0]), *map(int, job.split(":")[1:])
    torch.manual_seed(0)
    objective = Regression()
    asked = 0
    def stop():
        global asked
        asked += 1
        # Only the last process hears the signal
        process = own_process(Runtime())
        return 15 if process.process_index == process.num_processes - 1 and asked > stop_after >= 0 else None
    try:
        report = train(
            objective, lambda rows: (x[rows], y[rows]), len(x),
            TrainSettings(batch_size=7, learning_rate=0.05, epochs=3, eval_every=4, accumulate=accumulate, log_every=1),
            runtime=Runtime(), run=Run(None if stop_after < 0 else folder, 0, stop_signal=stop),
            backbone=objective.layer, dev_score=lambda: -float(((objective.layer(x) - y) ** 2).mean()),
        )
    except Interrupted:
        sys.exit(15)
    process = own_process(Runtime())
    layer = objective.layer.state_dict()
    where = folder / f"end-{process.num_processes}-{process.process_index}.safetensors"
    save_file({**layer, "draws": torch.tensor(objective.draws)}, where)
"""
MANY = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def train_in(folder: Path, processes: int, **jobs: tuple[int, int]) -> int:
    """Run trainings in these processes: where below `folder`, steps until a stop (-1: kept nowhere), accumulation."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    for name in jobs:
        (folder / name).mkdir(exist_ok=True)
    words = [str(program), *(f"{folder / name}:{stop}:{accumulate}" for name, (stop, accumulate) in jobs.items())]
    command = [sys.executable, *(MANY if processes > 1 else []), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(done.stderr)
    assert "still a member" not in done.stderr, "gloo may abort such a process, and torchrun calls that a failure"
    return done.returncode


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings that nothing stopped, by one process and by two: one-1, one-2, two-1, two-2 and nowhere."""
    folder = tmp_path_factory.mktemp("trained")
    never = 1000
    assert train_in(folder, 1, **{"one-1": (never, 1), "one-2": (never, 2)}) == 0
    assert train_in(folder, 2, **{"two-1": (never, 1), "two-2": (never, 2), "nowhere": (-1, 1)}) == 0
    return folder


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_end_with_the_weights_of_one(trained: Path, accumulate: int) -> None:
    """Batches of 7 and a last one of 1, which cannot be shared."""
    alone, shared = trained / f"one-{accumulate}", trained / f"two-{accumulate}"
    one = load_file(alone / "end-1-0.safetensors")
    for rank in (0, 1):
        two = load_file(shared / f"end-2-{rank}.safetensors")
        for name in ("weight", "bias"):
            assert torch.allclose(one[name], two[name], atol=1e-5)
    logs = [[json.loads(line) for line in (n / "log.jsonl").read_text().splitlines()] for n in (alone, shared)]
    assert [entry["step"] for entry in logs[0]] == [entry["step"] for entry in logs[1]], "one process writes"
    losses = [[entry["loss"] for entry in log if "loss" in entry] for log in logs]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5), "the loss of the whole batch"


def test_stopped_and_resumed_they_end_as_if_never_stopped(trained: Path, tmp_path: Path) -> None:
    assert train_in(tmp_path, 2, cut=(6, 1)) != 0
    assert not (tmp_path / "cut" / "end-2-0.safetensors").exists()
    assert train_in(tmp_path, 2, cut=(1000, 1)) == 0
    for rank in (0, 1):
        whole = load_file(trained / "two-1" / f"end-2-{rank}.safetensors")
        cut = load_file(tmp_path / "cut" / f"end-2-{rank}.safetensors")
        assert torch.equal(whole["weight"], cut["weight"])
        assert torch.equal(whole["draws"][6:], cut["draws"]), "each process goes on with its own random numbers"
    first, second = (load_file(trained / "two-1" / f"end-2-{rank}.safetensors")["draws"] for rank in (0, 1))
    assert not torch.equal(first, second)


def test_without_a_folder_each_process_draws_for_itself(trained: Path) -> None:
    first, second = (load_file(trained / "nowhere" / f"end-2-{rank}.safetensors") for rank in (0, 1))
    assert torch.equal(first["weight"], second["weight"]) and not torch.equal(first["draws"], second["draws"])


CONTRASTIVE = """
import sys
from pathlib import Path
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from safetensors.torch import save_file
from zoo.encoder import Corpus, Run, Runtime
from zoo.registry import METHODS
from zoo.training.processes import own_process

folder, backbone = Path(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
gradients = []
register_optimizer_step_pre_hook(
    lambda optimizer, *_: gradients.append([p.grad.clone() for g in optimizer.param_groups for p in g["params"]])
)
words = "cat dog tree house river stone cloud bird fish wind".split()
corpus = Corpus("toy", [f"the {a} sees a {b}" for a in words for b in words if a < b][:30])
for method in sys.argv[3:]:
    gradients.clear()
    cls = METHODS.get(method)
    extra = {"pseudo_tokens": 4, "queue_size": 20} if method == "ptbert" else {}
    encoder = cls(cls.Recipe(backbone=backbone, batch_size=8, dropout=0.0, learning_rate=1e-4, **extra), Runtime())
    cls.views_by_dropout = False  # the gradients of equal views are compared: without dropout they are no chance
    report = encoder.fit(corpus, run=Run(seed=1))
    process = own_process(Runtime())
    flat = {f"{step}-{i}": g for step, one in enumerate(gradients) for i, g in enumerate(one)}
    where = folder / f"{method}-{process.num_processes}-{process.process_index}"
    save_file({**flat, "loss": torch.tensor(report.final_loss)}, where)
"""


@pytest.fixture(scope="module")
def gradients(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A folder with the gradients of every step of both methods, by one process and by two."""
    folder = tmp_path_factory.mktemp("gradients")
    program = folder / "program.py"
    program.write_text(CONTRASTIVE)
    words = [str(program), str(folder), str(tiny_bert), "simcse", "ptbert"]
    for command in ([sys.executable, *words], [sys.executable, *MANY, *words]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("method", ["simcse", "ptbert"])
def test_two_processes_give_the_gradient_of_one(gradients: Path, method: str) -> None:
    """Three batches of 8 are shared 4 and 4, the last, of 6, 3 and 3; gradients are compared before the update."""
    one, first, second = (load_file(gradients / f"{method}-{name}") for name in ("1-0", "2-0", "2-1"))
    assert len(one) > 100 and one.keys() == first.keys()
    assert one["loss"].item() == pytest.approx(first["loss"].item(), abs=1e-4)
    for step in range(4):
        names = [name for name in one if name.startswith(f"{step}-")]
        of = [torch.cat([run[name].flatten() for name in names]) for run in (one, first, second)]
        assert float((of[0] - of[1]).norm() / of[0].norm()) < 0.01
        assert torch.equal(of[1], of[2])
