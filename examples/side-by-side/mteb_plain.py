"""A plain encoder and the task in mteb."""

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskSTS
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder


class Letters(AbsEncoder):
    def __init__(self, model_name="letters", revision=None, device=None, **kwargs):
        self.mteb_model_meta = ModelMeta.create_empty({"name": "mine/letters", "revision": "1"})

    def encode(self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **kwargs):
        texts = [text for batch in inputs for text in batch["text"]]
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)


class MyTask(AbsTaskSTS):
    metadata = mteb.TaskMetadata(
        name="MyTask",
        dataset={"path": "mine/my-task", "revision": "1"},
        description="Pairs of sentences with a score from 0 to 5.",
        type="STS",
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
    )

    def load_data(self, **kwargs):
        self.dataset = DatasetDict(test=Dataset.from_csv("my_task/pairs.tsv", sep="\t"))
        self.data_loaded = True


if __name__ == "__main__":
    print(mteb.evaluate(Letters(), MyTask(), cache=mteb.ResultCache("mteb-results")).to_dataframe())
