"""SentEval's transfer probes; all classifiers of a task are trained together as one batched problem."""
