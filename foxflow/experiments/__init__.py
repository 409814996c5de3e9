"""What composes the stages: a run, a pair of runs, a look at this machine."""
