"""Releases that do not descend from SimCSE's code, for `tools/fidelity/release.py`."""

# ruff: noqa: RUF012
from __future__ import annotations

import math
import sys
import types

import torch
import tqdm
from step import RATE, Release, module, spared
from transformers import AdamW, BertModel


class ISBERT(Release):
    """MutualInformationLoss over CNN over mean pooling, as unsupervised_training_nli.py puts them together."""

    repository, commit = "yanzhangnlp/IS-BERT", "ea6622c81a2d732798d974db74cc83f5398ac4d5"
    places = {"model.0.auto_model.": "model.", "model.1.convs.": "head.convolutions."}
    unused = ("position_ids", "pooler.dense")
    warmup = 2

    def build(self, config, settings):
        parts = "sentence_transformers"
        self.stub(f"{parts}.SentenceTransformer", SentenceTransformer=None)
        self.stub(f"{parts}.util", import_from_string=None, fullname=None, http_get=None)
        self.stub(f"{parts}.models.tokenizer", WordTokenizer=None, WhitespaceTokenizer=None)
        kind = self.part(f"{parts}.models.Transformer").Transformer
        states = kind.__new__(kind)
        torch.nn.Module.__init__(states)
        states.auto_model = BertModel(config)
        features = self.part(f"{parts}.models.CNN").CNN(config.hidden_size, out_channels=8)
        pooling = self.part(f"{parts}.models.Pooling").Pooling(features.get_word_embedding_dimension())
        encoder = torch.nn.Sequential(states, features, pooling)
        return self.part(f"{parts}.losses.MutualInformationLoss").MutualInformationLoss(encoder, 24)

    def loss(self, batch):
        """The code's estimator is lower by a constant; its masks are asked onto a GPU."""
        torch.Tensor.cuda = lambda tensor: tensor
        ids, mask = batch
        return self.model([{"input_ids": ids, "attention_mask": mask}], None) + 2 * math.log(2)

    def optimizer(self):
        """`fit`'s: no decay of biases and LayerNorm, no bias correction."""
        return spared(self.model, AdamW, eps=1e-7, correct_bias=False)


class Crops(Release):
    """`train_loop` itself, whose loader is our batches."""

    repository, commit = "berenslab/text-embed-augm", "09ac5290f4dd4781c0fbbcd5e316adb7fd582fc2"
    places = {"": "pooler.model."}
    unused = ("position_ids", "pooler.dense")

    def build(self, config, settings):
        return BertModel(config)

    def run(self, batches):
        evaluation = types.SimpleNamespace(KNNEval=None, MTEBEval="")
        sys.modules |= {"tqdm.notebook": tqdm, "text_embeddings_src.eval_functions": evaluation}
        sys.modules |= {name: types.ModuleType(name) for name in ("pandas", "text_embeddings_src")}
        loop = module(self.checkout / "text_embeddings_src" / "train_stuff.py").train_loop
        # Other libraries ask for its version.
        del sys.modules["pandas"]
        loader = [[(ids[:, side], mask[:, side]) for side in range(2)] for ids, mask in batches]
        wrapped = types.SimpleNamespace(
            model=self.model, get_outputs=lambda **inputs: self.model(**inputs).last_hidden_state
        )
        unmeasured = {"eval_train_data": None, "eval_train_labels": None, "eval_every_epochs": False}
        # A rate of 0 leaves the gradients of the first batch and moves nothing.
        loop(wrapped, loader[:1], "cpu", lr=0.0, **unmeasured)
        named = [(self.ours(name), weight.grad) for name, weight in self.model.named_parameters()]
        gradients = {name: gradient.clone() for name, gradient in named if gradient is not None}
        losses = loop(wrapped, loader, "cpu", lr=RATE, **unmeasured)
        return list(map(float, losses[0])), gradients
