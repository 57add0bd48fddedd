"""Curves, samples and results in Weights & Biases and TensorBoard. docs/tracking.md says how."""
