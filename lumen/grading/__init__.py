"""Grading: what a question is (``question``), and what an answer to it is worth (``check``).

Nothing here knows any question; ``lumen.exercises`` holds those.
"""
