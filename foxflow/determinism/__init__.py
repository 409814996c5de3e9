"""Settings and random streams that fix the bits of a run."""
