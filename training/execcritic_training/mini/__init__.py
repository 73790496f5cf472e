"""The miniature: both roles trained on a CPU with a model of 135 million parameters."""
