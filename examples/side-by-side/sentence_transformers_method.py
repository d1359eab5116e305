"""Alignment and uniformity in sentence-transformers: loss, views, one training."""

import random

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch.nn import functional as F


class AlignUniformLoss(torch.nn.Module):
    def __init__(self, model, alpha=2.0, scale=2.0, uniform_weight=1.0):
        super().__init__()
        self.model, self.alpha, self.scale, self.uniform_weight = model, alpha, scale, uniform_weight

    def forward(self, features, labels):
        x, y = (F.normalize(self.model(view)["sentence_embedding"], dim=1) for view in features)
        align = (x - y).norm(dim=1).pow(self.alpha).mean()
        return align + self.uniform_weight * (self.uniformity(x) + self.uniformity(y)) / 2

    def uniformity(self, x):
        return torch.pdist(x).pow(2).mul(-self.scale).exp().mean().log()


def shortened(text, draw, deleted=0.1):
    return " ".join(word for word in text.split() if draw.random() >= deleted) or text


def train(backbone, sentences, seed=0):
    draw = random.Random(seed)
    states = Transformer(backbone, max_seq_length=32, model_kwargs={"dtype": "float32"})
    model = SentenceTransformer(modules=[states, Pooling(states.get_embedding_dimension(), "cls")])
    data = Dataset.from_dict({"text": sentences, "view": [shortened(text, draw) for text in sentences]})
    args = SentenceTransformerTrainingArguments("out", per_device_train_batch_size=64, learning_rate=3e-5, seed=seed)
    SentenceTransformerTrainer(model, args, data, loss=AlignUniformLoss(model)).train()
    return model
