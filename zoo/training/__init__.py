"""The training loop, the losses, the queue and the momentum encoder."""
