"""Stillroom's query side."""

__version__ = "0.1.0"
