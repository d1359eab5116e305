"""Releases that train a decoder by adapters, for `tools/fidelity/release.py`: they also need peft 0.4.0."""

# ruff: noqa: B905, RUF012
from __future__ import annotations

import sys
import types
from unittest import mock

import torch
import transformers
from step import Release, module


class PromptEOL(Release):
    """`compute_loss` of its trainer, on a LLaMA in peft's class; rows are padded on the left, as its tokenizer does."""

    repository, commit = "kongds/scaling_sentemb", "8567aa083c1b3c77586670f91e7f78eb80694ad3"
    kind, file = "llama", "ft_llm.py"
    places = {"base_model.model.model.": "pooler.model."}
    unused = ("lm_head.", "rotary_emb")

    def build(self, config, settings):
        from peft import LoraConfig, get_peft_model

        for name in "fire bitsandbytes datasets boltons boltons.iterutils".split():
            sys.modules[name] = mock.MagicMock()
        self.take(module(self.checkout / self.file))
        every = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()
        adapters = LoraConfig(r=4, lora_alpha=6, target_modules=every, bias="none", task_type="CAUSAL_LM")
        return get_peft_model(transformers.LlamaForCausalLM(config), adapters)

    def take(self, released):
        self.trainer = types.SimpleNamespace(is_nli=True, use_neg_sentence=True)
        self.compute_loss = released.SentembTrainer.compute_loss

    def ours(self, name):
        other = super().ours(name)
        return other if other is None or other in self.start else other.replace("proj.", "proj.base_layer.")

    def loss(self, batch):
        ids, mask = batch
        rows = zip(ids.flatten(0, 1), mask.flatten(0, 1))
        ids = torch.stack([row.roll(int(len(row) - seen.sum())) for row, seen in rows]).view_as(ids)
        names = "input_ids", "labels", "attention_mask"
        return self.compute_loss(self.trainer, self.model, dict(zip(names, ids.unbind(1))))


class AnglELLaMA(PromptEOL):
    """Its pooler and its loss, of rows padded on the right and without its matrix of equal texts."""

    repository, commit = "SeanLee97/AnglE", "e1f2613287ae6fa33f14b6c8e340903cf9644076"
    file = "angle_emb/angle.py"

    def take(self, released):
        self.pooler, self.loss_of = released.Pooler, released.AngleLoss(w1=1.0, w2=35.0, w3=1.0)

    def loss(self, batch):
        ids, mask, grades = batch
        rows = {"input_ids": ids.flatten(0, 1), "attention_mask": mask.flatten(0, 1)}
        return self.loss_of(grades.repeat_interleave(2)[:, None], self.pooler(self.model, is_llm=True)(rows))
