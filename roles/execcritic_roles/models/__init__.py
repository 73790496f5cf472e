"""What answers a conversation: any OpenAI-compatible endpoint, a recording, or a person.

`protocol` is the seam, `registry` picks an implementation by its specification
(`openai:MODEL`, `replay:FILE`, `human`).
"""
