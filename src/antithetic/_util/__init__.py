"""Helpers that every layer may use: input checks, files, progress, threads, warnings."""
