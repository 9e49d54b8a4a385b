"""Agents that people use, with a scripted model: the programs themselves, which `npm install` in `tests/npm` brings."""
