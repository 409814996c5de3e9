"""A run's record on disk: written step by step, opened as a stream, verified against its own seals."""

from foxflow.flow import manifest_digest
from foxflow.record.reader import open_record
from foxflow.record.verification import verify
from foxflow.record.writer import Writer

__all__ = ["Writer", "manifest_digest", "open_record", "verify"]
