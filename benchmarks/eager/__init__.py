"""The opponent: the reference trainer's model, losses and learning step in eager PyTorch with autograd."""
