"""A plain encoder and the task in sentence-transformers."""

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator


class Letters(InputModule):
    save_in_root = True

    def preprocess(self, inputs, prompt=None, **kwargs):
        rows = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in inputs]
        return {"counts": torch.tensor(rows, dtype=torch.float32)}

    def forward(self, features, **kwargs):
        return {**features, "sentence_embedding": features["counts"]}

    def get_embedding_dimension(self):
        return 26

    def save(self, output_path, *args, **kwargs):
        self.save_config(output_path)


def task(path="my_task/pairs.tsv", name="my-task"):
    rows = Dataset.from_csv(path, sep="\t")
    return EmbeddingSimilarityEvaluator(rows["sentence1"], rows["sentence2"], rows["score"], name=name)


if __name__ == "__main__":
    print(task()(SentenceTransformer(modules=[Letters()])))
