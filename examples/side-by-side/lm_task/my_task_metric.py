"""Spearman's correlation, which lm-eval has not."""

from scipy.stats import spearmanr


def process(doc, results):
    return {"spearman": (float(results[0]), float(doc["score"]))}


def spearman(items):
    return float(spearmanr(*zip(*items, strict=True)).statistic)
