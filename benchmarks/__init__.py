"""Ratios, measured side by side in one run; `python -m benchmarks` runs those that take a minute."""
