"""Batches that go to a device while the host keeps their integers."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from zoo.engine.host import changed, host_of, to_device


def test_rows_that_share_memory_are_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA refuses to pin a tensor whose rows are one row, as those of a template alone are."""
    pinned: list[bool] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self.is_contiguous()) or self)
    with suppress(AssertionError, RuntimeError):  # no GPU
        to_device(torch.tensor([1, 2]).expand(3, -1), torch.device("cuda"))
    assert pinned == [True]


def test_the_host_keeps_the_values_of_a_changed_batch() -> None:
    on_device = to_device(torch.tensor([[1, 2], [3, 4]]), torch.device("meta"))
    assert host_of(changed(on_device, lambda batch: batch[::2])).tolist() == [[1, 2]]
    assert host_of(torch.tensor([5])).tolist() == [5]
