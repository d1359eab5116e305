"""What `zoo-bench run` does with a method, in sentence-transformers: seeds, dev selection, resumption, a mean."""

import random
import statistics
import sys
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers_method import AlignUniformLoss, shortened
from sentence_transformers_plain import task
from transformers.trainer_utils import get_last_checkpoint


def train(backbone, sentences, dev, seed):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    states = Transformer(backbone, max_seq_length=32, model_kwargs={"dtype": "float32"})
    model = SentenceTransformer(modules=[states, Pooling(states.get_embedding_dimension(), "cls")])
    data = Dataset.from_dict({"text": sentences, "view": [shortened(text, draw) for text in sentences]})
    args = SentenceTransformerTrainingArguments(
        f"out/{seed}",
        per_device_train_batch_size=64,
        learning_rate=3e-5,
        num_train_epochs=1,
        seed=seed,
        eval_strategy="steps",
        eval_steps=1,
        save_steps=1,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_dev_spearman_cosine",
    )
    trainer = SentenceTransformerTrainer(model, args, data, loss=AlignUniformLoss(model), evaluator=dev)
    last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    return model


if __name__ == "__main__":
    backbone, corpus, dev = sys.argv[1:]
    sentences = Dataset.from_text(corpus)["text"][:128]
    test = task()
    models = [train(backbone, sentences, task(dev, "dev"), seed) for seed in range(3)]
    scores = [100 * test(model)["my-task_spearman_cosine"] for model in models]
    print(f"align-uniform  {statistics.mean(scores):.2f} ± {statistics.stdev(scores):.2f}")
