"""The sandbox levels that this machine has, for the tests that need one."""

import functools
import os

import pytest

from lumen.grading.sandbox import Limits, NoSandbox, choose

SAFE = (1, 2)


@functools.cache
def refusal(level):
    """Why a level cannot be had here, or nothing."""
    try:
        sandbox, _ = choose(Limits(), level)
    except NoSandbox as error:
        return str(error)
    with sandbox:
        return ""


def need(level):
    """Leave a test whose level is not here. A machine that must have one fails without any."""
    reason = refusal(level)
    if not reason:
        return
    if os.environ.get("LUMEN_REQUIRE_SANDBOX") == "1" and all(map(refusal, SAFE)):
        pytest.fail("; ".join(map(refusal, SAFE)), pytrace=False)
    pytest.skip(reason)


def best():
    """The best level here, as ``lumen grade`` would take it."""
    return next(level for level in (1, 2, 3) if not refusal(level))
