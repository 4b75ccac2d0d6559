"""Hypothesis draws the same examples on every machine, and a busy machine fails no test; and the
browser in which pages and what moves on them are looked at."""

import os
import shutil

import pytest
from hypothesis import settings

settings.register_profile("proof", deadline=None, derandomize=True)
settings.load_profile("proof")


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@pytest.fixture(scope="module")
def browser():
    program = chromium()
    if program is None:
        missing = "no Chromium on this machine, so nobody looked at the pages: install chromium"
        if os.environ.get("LUMEN_REQUIRE_BROWSER") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if root else []
        )
        yield running
        running.close()
