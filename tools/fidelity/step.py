"""A release and its ten steps: what the training codes that `tools/fidelity/release.py` runs have in common."""

# ruff: noqa: RUF012
from __future__ import annotations

import importlib.util
import sys
import types

import torch
from transformers import AdamW, AutoConfig, get_linear_schedule_with_warmup

STEPS = 10
RATE = 1e-3


def module(path, name="released"):
    """Import a file of a checkout."""
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def spared(model, kind, **options):
    """Return an AdamW whose weight decay spares biases and LayerNorm."""
    groups = [{"params": [], "weight_decay": 0.01}, {"params": [], "weight_decay": 0.0}]
    for name, weight in model.named_parameters():
        groups["bias" in name or "LayerNorm" in name]["params"].append(weight)
    return kind(groups, lr=RATE, **options)


class Release:
    """One release: its repository and commit, its model with our weights, and its training step."""

    repository = ""
    commit = ""
    file = ""
    kind, cls = "bert", "BertForCL"
    arguments = {}
    # Where our weights stand in their model: a prefix of theirs, and ours.
    places = {"bert.": "pooler.model.", "mlp.": "pooler.mlp."}
    # Parts of theirs that this training does not use, or sets otherwise.
    unused = ("position_ids", "lm_head.", "pooler.dense")
    warmup = 0

    def __init__(self, checkout, start, facts):
        self.checkout, self.start, self.facts = checkout, start, facts
        config = AutoConfig.for_model(self.kind, **facts["config"])
        settings = types.SimpleNamespace(
            pooler_type="cls", temp=0.05, hard_negative_weight=0.0, do_mlm=False, mlp_only_train=True, **self.arguments
        )
        self.model = self.build(config, settings).float()
        self.prepare()
        self.fill()

    def build(self, config, settings):
        """Make the model, with weights of its own."""
        return getattr(module(self.checkout / self.file), self.cls)(config, model_args=settings)

    def part(self, name):
        """Import a module of its packages without what their __init__ imports."""
        for package in (name.split(".")[0], name.rpartition(".")[0]):
            shell = f"{type(self).__name__}_{package}"
            shell = sys.modules.setdefault(shell, types.ModuleType(shell))
            shell.__path__, shell.__version__ = [str(self.checkout / package.replace(".", "/"))], "3.4.0"
        return importlib.import_module(f"{type(self).__name__}_{name}")

    def stub(self, name, **content):
        """Put names in the place of a module that is not imported."""
        sys.modules[f"{type(self).__name__}_{name}"] = types.SimpleNamespace(**content)

    def prepare(self):
        """Set what the release's script sets on the model."""

    def ours(self, name):
        """Return our name of one of their weights, or None for one that is not used."""
        for theirs, ours in self.places.items():
            if name.startswith(theirs):
                other = ours + name[len(theirs) :]
                return other if other in self.start else other.replace("LayerNorm", "norm")
        return None

    def fill(self):
        """Put our weights into the model; each of theirs has one of ours, or is not used."""
        state = self.model.state_dict()
        with torch.no_grad():
            for name, tensor in state.items():
                ours = self.ours(name)
                if ours in self.start:
                    tensor.copy_(self.start[ours])
                elif not any(part in name for part in self.unused):
                    raise SystemExit(f"{name} has no weight of ours ({ours})")

    def inputs(self, batch):
        """Return the release's inputs of a batch of ours."""
        ids, mask = batch
        if ids.ndim == 2:
            ids, mask = (torch.stack([part, part], 1) for part in (ids, mask))
        if ids.shape[1] == 1:
            ids, mask = (part.repeat(1, 2, 1) for part in (ids, mask))
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}

    def loss(self, batch):
        """Return the loss of a batch."""
        return self.model(**self.inputs(batch)).loss

    def after_step(self):
        """Do what the release does after each update."""

    def optimizer(self):
        """Return the optimizer as the release's script makes it."""
        return AdamW(self.model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)

    def run(self, batches):
        """Train; return the losses, and by our names the gradients of the first step."""
        self.model.train()
        optimizer = self.optimizer()
        schedule = get_linear_schedule_with_warmup(optimizer, self.warmup, STEPS)
        losses, gradients = [], {}
        for step, batch in enumerate(batches):
            loss = self.loss(batch)
            loss.backward()
            if step == 0:
                for name, weight in self.model.named_parameters():
                    ours = self.ours(name)
                    if weight.grad is not None and ours in self.start:
                        gradients[ours] = weight.grad.clone()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            self.model.zero_grad()
            self.after_step()
            losses.append(float(loss))
        return losses, gradients
