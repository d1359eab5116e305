"""Fine-tunes a trained encoder on labelled pairs and restores its weights afterwards.

The settings are SBERT's (Reimers and Gurevych 2019, section 4.2) for STS-B; BURT fine-tunes for STS-B, SICK-R and
SemEval-2013 5(a) without stating its settings (docs/methods.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from benchmark.reasons import reason
from zoo.check import PROBES, TOLERANCE
from zoo.encoder import Encoder, Run
from zoo.engine.batching import EncodingStats, encode_table
from zoo.engine.tokens import TokenTable
from zoo.errors import MissingError
from zoo.methods.base import BackboneEncoder
from zoo.progress import Progress
from zoo.training.loop import Collate, Objective, train
from zoo.training.settings import TrainSettings
from zoo.training.siamese import Concatenation, PairObjective, PairTask, classified_right, pair_batches, width_of
from zoo.training.vocabulary import training_only

BATCH = 16
EPOCHS = 4
_RATE = 2e-5
# Of the steps; then the learning rate falls linearly to 0. The features are BURT's and SBERT's.
_WARMUP = 0.1
_HEAD: Concatenation = "u;v;|u-v|"

Sides = tuple[Sequence[str], Sequence[str]]
"""First and second texts of pairs."""


class _Trainable(nn.Module):
    def __init__(self, encoder: BackboneEncoder) -> None:
        super().__init__()
        self.parts = nn.ModuleList([encoder.backbone.model, *encoder.parts().values()])
        self.pooled = encoder.forward

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token ids and mask (n, length) -> vectors (n, dim)."""
        return self.pooled(input_ids, attention_mask)


def trainable(encoder: Encoder) -> BackboneEncoder:
    """Return an encoder with a transformer's forward pass; raises MissingError for others."""
    if type(encoder).traits(encoder.recipe).fine_tunes and isinstance(encoder, BackboneEncoder):
        table = encoder.token_table(list(PROBES))
        forward = encode_table(
            table,
            encoder.forward,
            dim=encoder.pooled_dim,
            pad_id=encoder.backbone.pad_id,
            runtime=encoder.runtime,
            stats=EncodingStats(),
        )
        vectors = encoder.encode(list(PROBES))
        if forward.shape == vectors.shape:
            scale = float(np.linalg.norm(vectors, axis=1).mean()) or 1.0
            if np.abs(forward - vectors).max() <= TOLERANCE[encoder.runtime.precision] * scale:
                return encoder
    raise MissingError(reason("untrainable", encoder=type(encoder).__name__))


def _tokens_met(encoder: BackboneEncoder, table: TokenTable, rows: int) -> torch.Tensor:
    met = [torch.from_numpy(table.ids[: table.offsets[rows]]).long(), torch.tensor([encoder.backbone.pad_id])]
    hook = encoder.backbone.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: met.append(given[0].flatten().cpu())
    )
    with hook, torch.no_grad():
        encoder.forward(*(tensor.to(encoder.runtime.device) for tensor in table.padded([0], encoder.backbone.pad_id)))
    return torch.cat(met).unique()  # type: ignore[no-untyped-call, no-any-return]


@contextmanager
def _trainable(encoder: BackboneEncoder, table: TokenTable, rows: int, run: Run) -> Iterator[nn.Module]:
    module = _Trainable(encoder)
    before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    frozen = [parameter for parameter in module.parameters() if not parameter.requires_grad]
    # Also weights that were frozen in the encoder's own training.
    module.requires_grad_(True)
    runtime = encoder.runtime
    torch.manual_seed(run.seed)
    encoder.runtime = replace(runtime, progress=Progress.silent())
    try:
        with training_only(encoder.backbone.model, _tokens_met(encoder, table, rows)):
            yield module
    finally:
        encoder.runtime = runtime
        module.load_state_dict(before)
        for parameter in frozen:
            parameter.requires_grad_(False)
        module.eval()


def _train(
    objective: Objective,
    collate: Collate,
    rows: int,
    encoder: BackboneEncoder,
    run: Run,
    dev_score: Callable[[], float] | None,
    module: nn.Module,
) -> None:
    epoch = math.ceil(rows / BATCH)
    settings = TrainSettings(
        batch_size=BATCH,
        learning_rate=_RATE,
        epochs=EPOCHS,
        eval_every=epoch,
        warmup_steps=math.ceil(_WARMUP * epoch * EPOCHS),
        unit="pairs",
    )
    objective.to(encoder.runtime.device)
    train(objective, collate, rows, settings, runtime=encoder.runtime, run=run, backbone=module, dev_score=dev_score)


class CosineRegression(Objective):
    """Mean squared error of cosine(u, v) to gold in [0, 1] (SBERT section 3, regression objective)."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *collated: torch.Tensor, **_: object) -> torch.Tensor:
        """Ids and mask (n, 2, length), gold (n,) -> scalar loss."""
        ids, mask, gold = collated
        u, v = self.encoder(ids.flatten(0, 1), mask.flatten(0, 1)).unflatten(0, ids.shape[:2]).unbind(1)
        with torch.autocast(u.device.type, enabled=False):
            return F.mse_loss(F.cosine_similarity(u.float(), v.float()), gold)


@contextmanager
def fine_tuned_by_score(
    encoder: Encoder, pairs: Sides, gold: NDArray[np.float64], dev_score: Callable[[], float], run: Run
) -> Iterator[None]:
    """Fine-tune the encoder, inside the block, so that the cosines of pairs fit gold (n,) in [0, 1].

    The epoch with the best `dev_score` is used. Raises MissingError for an untrainable encoder, TrainingError, and
    Interrupted after a signal.
    """
    trained = trainable(encoder)
    table = trained.token_table([*pairs[0], *pairs[1]])
    with _trainable(trained, table, len(table), run) as module:
        targets = torch.from_numpy(gold.astype(np.float32))

        def collate(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            both = np.stack([rows, rows + len(gold)], axis=1).ravel()
            ids, mask = table.padded(both, trained.backbone.pad_id)
            return ids.view(len(rows), 2, -1), mask.view(len(rows), 2, -1), targets[torch.from_numpy(rows)]

        _train(CosineRegression(module), collate, len(gold), trained, run, dev_score, module)
        yield


def fine_tuned_right(
    encoder: Encoder,
    train_pairs: Sides,
    train_labels: NDArray[np.int64],
    pairs: Sides,
    labels: NDArray[np.int64],
    run: Run,
) -> NDArray[np.bool_]:
    """Return the `pairs` (n,) classified right by a softmax on [u; v; |u-v|], trained with the encoder.

    Without a development part the last weights are measured. Raises the errors of `fine_tuned_by_score`.
    """
    trained = trainable(encoder)
    table = trained.token_table([*train_pairs[0], *train_pairs[1], *pairs[0], *pairs[1]])
    with _trainable(trained, table, 2 * len(train_labels), run) as module:
        numbers = np.arange(len(table))
        cuts = np.cumsum([len(train_labels), len(train_labels), len(labels)])
        first, second, test_first, test_second = np.split(numbers, cuts)
        classes = int(train_labels.max()) + 1
        head = nn.Linear(width_of(_HEAD) * trained.dim, classes, bias=False)
        objective = PairObjective(module, [head], _HEAD)
        learned = pair_batches(
            [PairTask("train", classes, first, second, train_labels)], table, trained.backbone.pad_id
        )
        _train(objective, learned, len(train_labels), trained, run, None, module)
        tested = pair_batches(
            [PairTask("test", classes, test_first, test_second, labels)], table, trained.backbone.pad_id
        )
        return classified_right(objective, tested, len(labels), trained.runtime.device)
