"""The networks: parameters, encoder, heads, and what a step learns."""
