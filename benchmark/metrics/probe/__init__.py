"""SentEval's transfer probes, trained as one batched problem."""
