"""Batch runs: many instances of a data set through the main job, resumable, on one machine or many.

instance.py says what an instance is, assignment.py what a worker is given and gives back, folder.py where it lies.
"""
