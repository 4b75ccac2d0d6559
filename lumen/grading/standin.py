"""What stands in the box where ``lumen.exercises`` was: no question, no reference, no verdict.

The learner's notebook calls ``check`` and ``score`` as it always does. Here they say nothing, for
the judge asks from outside. This file is copied into the box alone, so it imports nothing.
"""


class Later:
    """A verdict that is not given here. It has no points, so that no cell takes it for full."""

    points, max_points, ok, hint, mistake = 0, 1, False, "", None

    def __call__(self, function):
        return self

    def __repr__(self):
        return "This is graded outside."


def check(name, seeds=()):
    return Later()


def score(set_name, namespace, seeds=()):
    return Later()
