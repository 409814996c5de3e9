"""The reference trainer: one step after another, from the market to the weights."""
