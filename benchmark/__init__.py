"""The measuring side of zoo-bench: data, tasks, metrics, plan, runner, records and leaderboards."""
