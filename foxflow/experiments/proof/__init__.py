"""Experiments on an accused producer: each says what came of it, and whether the difference came back."""
