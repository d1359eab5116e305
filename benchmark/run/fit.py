"""Obtains a plan's encoder: trained, loaded from its folder, or as it is; and what the training left beside it."""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.keys import code_digest
from benchmark.records.record import plain
from benchmark.run.plan import EncoderPlan, Run
from benchmark.run.vectors import VectorStore
from zoo.api import check_files, save
from zoo.check import SENTENCES, own_line
from zoo.encoder import DevScore, Encoder, FitReport
from zoo.encoder import Run as TrainingRun
from zoo.errors import CorruptError, MissingError, ZooError, error_text
from zoo.files import hashes_of, read_signed, write_signed
from zoo.machine import utc_now
from zoo.plugins import METHODS
from zoo.progress import Progress


@dataclass(frozen=True)
class Fitter:
    """Obtains the encoders of a run."""

    run: Run

    def obtain(self, plan: EncoderPlan, folder: Path, peak_from_mb: float | None = None) -> Encoder:
        """Return an object, or the encoder in `folder`, or fit it and save it there if fitting learned something."""
        if plan.row.given is not None:
            return plan.row.given.encoder
        saved = self._load_saved(plan, folder)
        return saved if saved is not None else self._fitted(plan, folder, peak_from_mb)

    def _fitted(self, plan: EncoderPlan, folder: Path, peak_from_mb: float | None) -> Encoder:
        encoder = plan.row.cls(plan.row.recipe, self.run.runtime)
        started = time.perf_counter()
        report = self.fit(encoder, plan, folder)
        if not report.fitted:
            return encoder
        # A fit without training steps does not time itself.
        if not report.seconds:
            report = dataclasses.replace(report, seconds=round(time.perf_counter() - started, 3))
        training = self._training_record(report, plan) | {"peak_from_mb": peak_from_mb} | self._how_far(encoder, plan)
        place = folder / "encoder"
        # An interrupted save may have left a part.
        shutil.rmtree(place, ignore_errors=True)
        try:
            save(encoder, place)
        except Exception as error:
            # A plugin's `save` is at fault, so its vectors are measured now, from memory.
            if isinstance(error, ZooError) or not (line := own_line(plan.row.cls, error, "save")):
                raise
            self.run.runtime.progress.say(
                f"warning: {plan.label} was trained and cannot be saved: {error_text(error)}{line}. Its cells are"
                " measured now; a later run trains it again."
            )
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            write_signed(folder / "fit.json", {"encoder_key": plan.key, "files": {}, "training": training})
            return encoder
        write_signed(folder / "fit.json", {"encoder_key": plan.key, "files": hashes_of(place), "training": training})
        for path in (folder / "training").rglob("*.safetensors"):
            # The checkpoints are not needed any more; the log stays.
            path.unlink()
        return encoder

    def fit(self, encoder: Encoder, plan: EncoderPlan, folder: Path) -> FitReport:
        """Fit an encoder as its plan says; checkpoints and the log are written to `folder`."""
        training, trackers = training_run(self.run, plan, folder / "training"), self.run.options.trackers()
        dev_score = self._dev_score(plan)
        if trackers is None:
            return encoder.fit(plan.inputs.corpus, dev_score=dev_score, run=training)
        with trackers.following(folder.name, plan.row.recipe, self.run.runtime) as training.log_values:
            return encoder.fit(plan.inputs.corpus, dev_score=dev_score, run=training)

    def _load_saved(self, plan: EncoderPlan, folder: Path) -> Encoder | None:
        if not (folder / "fit.json").is_file():
            return None
        try:
            saved = _checked_fit(read_signed(folder / "fit.json"))
            if self.run.request.since and saved["training"].get("ended", "") <= self.run.request.since:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                return None
            check_files(folder / "encoder", saved["files"])
            if not saved["files"]:
                raise CorruptError("it was not saved")
            return plan.row.cls.load(folder / "encoder", self.run.runtime)
        except (CorruptError, KeyError, TypeError, AttributeError) as error:
            self.run.runtime.progress.say(f"warning: {plan.label}: {error}; discarded and trained again.")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            return None

    def _dev_score(self, plan: EncoderPlan) -> DevScore | None:
        if self.run.dev is None or self.run.dev.data is None or not plan.row.traits.picks_checkpoint:
            return None
        data = self.run.dev.data
        # The training itself reacts to a signal, after it has written its checkpoint.
        quiet = dataclasses.replace(self.run.runtime, progress=Progress.silent(), stop_signal=lambda: None)

        def score(encoder: Encoder) -> dict[str, float]:
            loud, encoder.runtime = encoder.runtime, quiet
            try:
                store = VectorStore(encoder, plan.label)
                return {"score": data.score_dev(store), **data.geometry_dev(store)}
            finally:
                encoder.runtime = loud

        return score

    def _training_record(self, report: FitReport, plan: EncoderPlan) -> dict[str, Any]:
        result: dict[str, Any] = plain(dataclasses.asdict(report))
        result |= {"code": code_digest(), "ended": utc_now(), "corpus": plan.inputs.corpus_identity}
        result["dev_task"] = None
        dev = self.run.dev
        if dev is not None and dev.data is not None and plan.row.traits.picks_checkpoint:
            result["dev_task"] = dev.name
            overlap = dev.data.dev_overlap()
            if overlap is not None:
                result |= {"dev_pairs": overlap.pairs, "dev_pairs_in_test": overlap.in_test}
        return result

    def _how_far(self, encoder: Encoder, plan: EncoderPlan) -> dict[str, object]:
        """Return the updates of the published training, and the mean cosine with the start, None if unknown."""
        facts: dict[str, object] = {"paper_updates": plan.row.updates, "cosine_to_start": None}
        if (start := plan.row.cls.start(plan.row.recipe)) is not None:
            untrained = METHODS.get(start.method)(start.recipe, self.run.runtime)
            facts["cosine_to_start"] = cosine_to_start(untrained, encoder)
        return facts


def cosine_to_start(untrained: Encoder, trained: Encoder) -> float | None:
    """Return the mean cosine of fixed sentences before and after a training; None for vectors of another size."""
    before, after = (np.asarray(side.encode(SENTENCES), np.float64) for side in (untrained, trained))
    if before.shape != after.shape:
        return None
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    cosines = (before * after).sum(1) / np.where(lengths == 0, np.inf, lengths)
    return round(float(cosines.mean()), 6)


def training_run(run: Run, plan: EncoderPlan, folder: Path) -> TrainingRun:
    return TrainingRun(folder, plan.seed or 0, stop_signal=run.runtime.stop_signal, **run.request.checkpoints)


def _checked_fit(saved: object) -> dict[str, Any]:
    """Return the content of fit.json; raises CorruptError unless `obtain` wrote it."""
    if not isinstance(saved, dict) or not isinstance(saved.get("files"), dict) or "training" not in saved:
        raise CorruptError("fit.json does not say what was fitted")
    return saved


def read_fit(folder: Path) -> dict[str, Any] | None:
    """Return the content of the folder's fit.json, or None where it is absent or damaged (loading reports damage)."""
    try:
        return _checked_fit(read_signed(folder / "fit.json"))
    except (MissingError, CorruptError):
        return None
