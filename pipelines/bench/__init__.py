"""Measurements of speed and memory on the machine at hand. Nothing here loads torch: models run in child processes."""
