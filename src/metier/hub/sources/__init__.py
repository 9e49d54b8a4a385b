"""Sources that skills are fetched from: one module a kind, all of them behind `Fetcher` of `fetch.py`.

Fetching writes nothing but temporary files, runs nothing that comes from a source, and believes nothing that it says.
"""
