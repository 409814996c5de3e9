"""Two equal runs."""

import pytest
from track.small_record import write


@pytest.fixture
def pair(tmp_path):
    return write(tmp_path / "a"), write(tmp_path / "b")
