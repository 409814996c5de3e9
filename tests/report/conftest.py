"""A store of its own, for tests that publish."""

from track.conftest import fresh, migrated, place

__all__ = ["fresh", "migrated", "place"]
