"""Compile and launch."""
