"""The labeller of the extra `srl`, made once."""

from __future__ import annotations

import pytest

from zoo.errors import MissingError
from zoo.srl.spacy_labeller import SpacyLabeller


@pytest.fixture(scope="session")
def labeller() -> SpacyLabeller:
    """spaCy's small English model with our rules; without the extra the tests that need it skip."""
    try:
        return SpacyLabeller()
    except MissingError as error:
        pytest.skip(str(error))
