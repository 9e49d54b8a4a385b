"""The version of the package, kept where both the build and the index cache find it."""

__version__ = "0.1.0"
