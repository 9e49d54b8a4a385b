"""Packages that scripts of skills import: resolved to hashes when a skill is added, and built once for all runs.

What a skill declares is hostile input. Nothing of a package is executed here: Python packages are wheels only, those of
npm are unpacked without their install scripts, and both come in a sandbox that reaches the package index alone.
"""
