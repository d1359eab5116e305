"""Is a results folder what it says? `zoo-bench verify` computes again, `zoo-bench diff` names what differs."""
