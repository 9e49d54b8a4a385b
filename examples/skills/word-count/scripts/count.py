"""Prints how many words its argument has."""

import sys

print(len(sys.argv[1].split()), "words")
