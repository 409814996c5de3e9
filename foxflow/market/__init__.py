"""The market: what a tape of an order book is, readers of market files, synthetic tapes."""
