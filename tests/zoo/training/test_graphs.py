"""Captured steps beside ordinary ones, by a pretended graph: equal numbers, no read of the host, equal kernels."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from speed.counts import waits
from tools import pretend_graph
from zoo.check import _toy_pairs
from zoo.encoder import Corpus, FitReport, Run, Runtime
from zoo.engine.batching import without_host
from zoo.engine.states import Rows
from zoo.errors import Interrupted, TrainingError
from zoo.methods import prompttraining
from zoo.methods.simcse import SimCSE, SimCSEObjective
from zoo.progress import Progress
from zoo.recipes import all_recipes
from zoo.training import graphs
from zoo.training.graphs import Graphs
from zoo.training.loop import Training
from zoo.training.optimizers import make_optimizer, make_scheduler
from zoo.training.settings import TrainSettings

WORDS = "a the small dog runs home over green hills while rain falls on old towns and people sleep".split()
TEXTS = [" ".join(WORDS[i % 7 : i % 7 + 4 + i * 5 % 8]) for i in range(96)]


@dataclasses.dataclass
class Trained:
    """What a training did: losses, weights, captured steps, and output."""

    losses: list[float]
    weights: torch.Tensor
    steps: int
    output: str


class Checked(pretend_graph.PretendedGraph):
    """A graph that looks at each batch before it replays: the host reads nothing, and another batch changes nothing."""

    def replay(self) -> None:
        again, _ = self.recorded()
        assert [op.name() for op, args, kwargs, _ in again if waits(op._schema.name[6:], args, kwargs)] == []
        assert pretend_graph.operations(again) == pretend_graph.operations(self.calls)
        super().replay()


@pytest.fixture
def trained(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trained]:
    """Trains a recipe on the CPU in float64, for twelve steps or so, with pretended graphs or without any."""
    monkeypatch.setattr(graphs, "_DEVICES", ("cpu",))
    monkeypatch.setattr(graphs, "_SHARES", 2)
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor if tensor.is_floating_point() else tensor.double())
    monkeypatch.setattr(prompttraining, "in_one_pass", lambda device: True)
    losses: list[float] = []
    one_step = Training.one_step

    def noted(training: Training, rows: Any) -> float:
        losses.append(one_step(training, rows))
        return losses[-1]

    def capture(graphs: Graphs, update: Callable[[], Any]) -> Any:
        graph = Checked(graphs, update)
        return graph, graph.result

    monkeypatch.setattr(Training, "one_step", noted)
    monkeypatch.setattr(Graphs, "capture", capture)

    def train(name: str, captured: bool, run: Run | None = None, **fields: Any) -> Trained:
        losses.clear()
        cls, recipe = all_recipes()[name].resolve()
        small = {"backbone": str(tiny_bert), "batch_size": 8, "epochs": 1, "dropout": 0.0, "attention_dropout": 0.0}
        small |= {"queue_size": 16, "pseudo_tokens": 4, "learning_rate": 1e-3, **fields}
        fields_of_recipe = {field.name for field in dataclasses.fields(recipe)}
        recipe = dataclasses.replace(recipe, **{key: value for key, value in small.items() if key in fields_of_recipe})
        stream = io.StringIO()
        encoder = cls(recipe, Runtime(cuda_graphs=captured, progress=Progress(stream)))
        encoder.objective = lambda *parts: type(encoder).objective(encoder, *parts).double()
        corpus = _toy_pairs() if cls.traits(recipe).needs_pairs else Corpus("toy", TEXTS, documents=(0, 48))
        report = encoder.fit(corpus, run=run or Run(seed=3))
        weights = torch.cat([weight.flatten() for weight in encoder.backbone.model.state_dict().values()])
        return Trained(list(losses), weights, report.facts.get("captured_steps", 0), stream.getvalue())

    return train


# One of each kind of recipe that has graphs.
QUICK = ("simcse", "promptbert", "ptbert", "moco", "simcse-sup")
OTHERS = """esimcse mixcse mixcse-repo moco-2linear moco-reorder optiprompt optiprompt-repo promcse promptbert-repo
promptbert-no-denoise promptbert-same-template promptbert-sup promptbert-sup-repo ptbert-repo ptbert-tokens
ptbert-tokens-avg sentence-crops simcse-crop simcse-dcl simcse-off-dropout simcse-plus-plus simcse-sif""".split()


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_captured_steps_have_the_numbers_of_ordinary_ones(name: str, trained: Callable[..., Trained]) -> None:
    """Ten steps and more, of which the last are captured."""
    # Some need an MLM head; and a row of a document is several sentences.
    fields = {"backbone": "zoo-mini"} if name.endswith(("prompt-repo", "bert-sup-repo")) else {}
    fields |= {"epochs": 8} if name == "sentence-crops" else {"epochs": 2} if name.endswith(("sup", "sup-repo")) else {}
    # A captured rate is a float32 number, which the loss of this recipe would magnify.
    fields |= {"learning_rate": 1e-4} if name == "promptbert-sup-repo" else {}
    ordinary, captured = trained(name, False, **fields), trained(name, True, **fields)
    assert captured.losses == pytest.approx(ordinary.losses, rel=1e-5)
    assert float((captured.weights - ordinary.weights).abs().max()) < 1e-5
    assert captured.steps >= 4 and ordinary.steps == 0


def test_a_checkpoint_serves_trainings_with_and_without_graphs(trained: Callable[..., Trained], tmp_path: Path) -> None:
    def stopped(folder: str, *, first: bool, then: bool) -> Trained:
        asked = iter(range(100))
        run = Run(seed=3, folder=tmp_path / folder, stop_signal=lambda: 15 if next(asked) == 8 else None)
        with pytest.raises(Interrupted, match="step 8"):
            trained("simcse", first, run)
        return trained("simcse", then, run)

    uninterrupted = trained("simcse", False)
    for first, then in ((True, False), (False, True)):
        rest = stopped(f"{first}", first=first, then=then)
        assert rest.losses == pytest.approx(uninterrupted.losses[8:], rel=1e-5) and len(rest.losses) == 4


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("simcse-mlm", {"backbone": "zoo-mini"}, "the tokens of its MLM loss are chosen by the host"),
        ("cosent", {}, graphs.UNSTATED),
        ("angle-nli", {"accumulate": 2}, "its batches are trained in parts"),
        ("simcse", {"chunk_rows": 4}, "its batches are trained in parts"),
        ("esimcse-repo", {}, "its optimiser, TransformersAdamW, has its rate and steps on the host"),
        ("tsdae", {"backbone": "zoo-mini"}, "its backbone's layers are not BERT's"),
    ],
)
def test_a_training_without_graphs_says_why(
    name: str, fields: dict[str, Any], why: str, trained: Callable[..., Trained], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "run", lambda training: FitReport(fitted=training.graphs is not None))
    training = trained(name, True, **fields)
    assert f"this training has no CUDA graphs: {why}" in training.output


def test_so_do_a_cpu_and_float16(
    trained: Callable[..., Trained], tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training: Any = SimpleNamespace(device=torch.device("cuda"), runtime=Runtime("cuda", "fp16"), settings=None)
    training.optimizer = None
    monkeypatch.setattr(graphs, "_DEVICES", ("cuda",))
    assert "float16" in str(graphs._obstacle(training))
    assert "this training has no CUDA graphs: cpu is not a CUDA device" in trained("simcse", True).output


def test_a_subclass_that_changes_the_loss_has_to_state_it_again() -> None:
    class Changed(SimCSEObjective):
        def contrast(self, *vectors: torch.Tensor) -> torch.Tensor:
            return super().contrast(*vectors)

    class Stated(Changed):
        ungraphed = None  # type: ignore[assignment]

    class Unchanged(SimCSEObjective):
        pass

    pooler, recipe = torch.nn.Identity(), SimCSE.Recipe()
    kinds = (SimCSEObjective, Changed, Stated, Unchanged)
    assert [graphs._ungraphed(kind(pooler, recipe)) for kind in kinds] == [None, graphs.UNSTATED, None, None]


def test_a_step_that_cannot_be_captured_is_told_in_a_sentence(
    trained: Callable[..., Trained], monkeypatch: pytest.MonkeyPatch
) -> None:
    def capture(graphs: Graphs, update: Callable[[], Any]) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(Graphs, "capture", capture)
    with pytest.raises(TrainingError, match=r"cannot be captured .*not permitted.* Train without --cuda-graphs\."):
        trained("simcse", True)


def test_rows_are_packed_as_by_the_host() -> None:
    lengths = torch.tensor([3, 5, 1, 4])
    mask = (torch.arange(6) < lengths[:, None]).long()
    host = Rows.of(mask, torch.float32)
    with without_host(0.625):  # 15 of 24 places, of which 13 have a token
        device = Rows.of(mask, torch.float32)
    assert device.tokens.tolist() == [*host.tokens.tolist(), 3, 4]
    assert device.starts.tolist() == host.starts.tolist() == [0, 3, 8, 9]
    assert torch.equal(device.bias, host.bias)
    with without_host(0.5), pytest.raises(RuntimeError, match="more tokens than the size class"):
        Rows.of(mask, torch.float32)


def test_a_rate_on_the_device_updates_as_a_number_does() -> None:
    """Ten steps of AdamW under a warm-up and a linear schedule; in between the optimiser has numbers again."""
    settings = TrainSettings(batch_size=1, learning_rate=1e-2, epochs=1, eval_every=1, weight_decay=0.1, warmup_steps=3)
    results = []
    for on_device in (False, True):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(5, 3))
        optimizer = make_optimizer([("weight", weight)], settings)
        scheduler = make_scheduler(optimizer, settings, 10)
        graphs = Graphs(SimpleNamespace(device=torch.device("cpu"), optimizer=optimizer, objective=torch.nn.Identity()))  # type: ignore[arg-type]
        for _ in range(10):
            weight.grad = torch.randn(5, 3)
            graphs.rates[0].fill_(optimizer.param_groups[0]["lr"])
            with graphs._rates_on_device(capturing=False) if on_device else nullcontext():
                assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor) == on_device
                optimizer.step()
            assert isinstance(optimizer.param_groups[0]["lr"], float)
            scheduler.step()
        results.append(weight.detach())
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=1e-7)
