"""Rewrites of a sentence by a chat decoder: GenEOL's transformations (Thirukovalluru and Dhingra 2025)."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from zoo.encoder import Runtime
from zoo.engine.backbone import find_backbone, quiet
from zoo.engine.model_folder import cannot_load, load_pretrained
from zoo.errors import UsageError

_END = " Please do not provide any alternative or reasoning or explanation."
# The instructions of prompts_utils.py in raghavlite/GenEOL@9d8e706, without their demonstrations.
INSTRUCTIONS = (
    "Paraphrase the input sentence or phrase, providing an alternative expression with the same meaning." + _END,
    "Rewrite the input sentence or phrase using different sentence structure and different words while preserving its"
    " original meaning." + _END,
    "Create a sentence or phrase that is also true, assuming the provided input sentence or phrase is true." + _END,
    "Provide a concise paraphrase of the input sentence or phrase, maintaining the core meaning while altering the"
    " words and sentence structure. Feel free to omit some of the non-essential details like adjectives or adverbs."
    + _END,
)
SUMMARY = (
    "Summarize the input sentence while preserving the exact meaning of the sentence. Do not output any additional"
    " explanation. Only output the summary.\nSentence: {}"
)
# As in the code for Mistral's models.
TEMPERATURE = 0.7
LONGEST = 256


class Rewriter:
    """Samples rewrites by the text alone, once, from a decoder loaded at the first text."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        self.source, self.runtime = find_backbone(name, allow_pickle=runtime.allow_pickle), runtime
        self._parts: tuple[Any, Any] | None = None
        self._known: dict[tuple[str, int, bool], list[str]] = {}

    def __call__(self, text: str, count: int, *, summarise: bool) -> list[str]:
        """`count` rewrites by each instruction; `summarise`: the summary of each."""
        key = (text, count, summarise)
        if key not in self._known:
            chats = [
                [
                    {"role": "user", "content": instruction},
                    {"role": "assistant", "content": "Alright."},
                    {"role": "user", "content": text},
                ]
                for instruction in INSTRUCTIONS
            ]
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")
            with torch.random.fork_rng(), torch.no_grad():
                torch.manual_seed(seed)
                drawn = self._drawn(chats, count)
                if summarise:
                    asked = [[{"role": "user", "content": SUMMARY.format(rewrite)}] for rewrite in drawn]
                    drawn = self._drawn(asked, 1)
            self._known[key] = drawn
        return self._known[key]

    def _drawn(self, chats: list[list[dict[str, str]]], count: int) -> list[str]:
        model, tokenizer = self._loaded()
        given = tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        ).to(model.device)
        ids = model.generate(
            input_ids=given["input_ids"],
            attention_mask=given["attention_mask"],
            do_sample=True,
            temperature=TEMPERATURE,
            top_k=0,
            num_return_sequences=count,
            max_new_tokens=LONGEST,
            pad_token_id=tokenizer.pad_token_id,
        )
        texts: list[str] = tokenizer.batch_decode(ids[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
        return [text.strip() for text in texts]

    def _loaded(self) -> tuple[Any, Any]:
        if self._parts is None:
            from transformers import AutoModelForCausalLM, AutoTokenizer

            quiet()
            try:
                tokenizer = load_pretrained(AutoTokenizer, self.source.folder, padding_side="left")
                model = load_pretrained(AutoModelForCausalLM, self.source.folder, dtype=torch.float32)
            except Exception as error:
                # An error of any kind means that this checkpoint cannot be used.
                raise cannot_load(f"generator {self.source.name!r}", self.source.folder, error) from error
            if not tokenizer.chat_template:
                raise UsageError(f"generator {self.source.name!r} has no chat template; give a model for chats.")
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.eos_token
            self._parts = model.eval().to(self.runtime.device), tokenizer
        return self._parts
