"""Continuous batching over a managed key-value pool; static and dynamic batching as policies of the same loop."""
