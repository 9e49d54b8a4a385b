"""Skills that are given to others: packed, published to a folder, a repository or a registry, and served as a site.

Whatever is published passes strict validation and the scanner first, and what was published never changes.
"""
