"""Pure torch twins of the compiled operators: float64, torch's own order of addition, autograd for gradients.

They share nothing with cuda_ext. `foxflow doctor` and the tests hold the operators against them.
"""
