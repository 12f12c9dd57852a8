# Two commands do all on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-dev
SOURCES := $(wildcard schemas/*.py query/*.py transforms/*.py pipelines/*.py)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test lint bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Strict editable mode shows type checkers, and tests, exactly what a wheel would hold; it has to run
# again when a file is added, which is why the stamp depends on the list of sources.
$(STAMP): $(BIN)/python pyproject.toml constraints.txt $(SOURCES)
	@test -f $(STAMP) || echo "setting up $(VENV): two to four minutes"
	rm -rf build
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]' --config-settings editable_mode=strict 2>&1 \
		| { grep -v 'is ignored: it is neither' || true; }
	@$(BIN)/python -c "import stillroom" && touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m tests.demo

test: $(STAMP) lint
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf build demo.kb demo-input $(VENV)
