"""`python -m foxflow` is the command `foxflow`."""

from foxflow.cli import main

main()
