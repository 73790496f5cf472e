"""Adapters for trainers on many nodes: slime and verl. Neither is imported here, nor is torch.

Both are handed judged records and give back what their trainer reads: sampled ids, masks and log-probabilities as they
are, and rewards in which a masked episode takes no part. Written against slime 0d234f3 and verl 6c923f3 and tested with
stand-ins for their classes; how to wire them is in docs/training.md.
"""
