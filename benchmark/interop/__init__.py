"""Other projects' forms: MTEB's result files, SentEval's interface."""
