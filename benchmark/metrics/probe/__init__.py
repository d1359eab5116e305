"""SentEval's transfer probes; all classifiers of a task are trained together as a single batched problem."""
