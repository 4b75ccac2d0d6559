"""Grading: what a question is (``question``), and what an answer to it is worth (``check``).

Around these two: the learner's side in a box (``sandbox``, ``worker``, ``wire``), one submission
from its first cell to its last mark (``examine``), many (``submissions``, ``batch``), and what is
said about them (``report``, ``command``, ``gradescope``).

Nothing here knows any question; ``lumen.exercises`` holds those.
"""
