"""python -m labkit.cli is the command lab."""

from labkit.cli import main

main()
