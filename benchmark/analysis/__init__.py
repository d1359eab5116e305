"""What PromptBERT's analyses show, for any backbone and method: `zoo-bench analyze`."""
