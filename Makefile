# make reproduce and make test need nothing prepared: they make .venv and install into it first, once.
#
# PIP_ARGS goes to pip, for another build of torch than pip's own choice; ARGS goes to `pfl-lib reproduce`, the benchmarks or JupyterLab.

PIP_ARGS =
ARGS =

HERE := $(CURDIR)
PYTHON := .venv/bin/python
STAMP := .venv/set-up
NOTEBOOKS = $(wildcard notebooks/*.ipynb notebooks/*/*.ipynb)

# Notebooks run on this .venv's own kernel, whatever else the user has installed under the name python3.
IN_VENV = PATH="$(HERE)/.venv/bin:$$PATH" JUPYTER_PATH="$(HERE)/.venv/share/jupyter" JUPYTER_PREFER_ENV_PATH=1
# Python keeps what it compiled: each of some hundred kernels, workers and programs would do it again.  It compiles what is
# imported, the first time that it is, which takes seconds; pip would compile all that it installs, which takes half a minute.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup reproduce test test-notebooks test-threads test-arithmetic record scorecard bench lab format clean FORCE

help:
	@echo "make reproduce   the papers' results, then a live check of this machine; see reports/build/index.html"
	@echo "make test        run all tests, then every notebook, then check style"
	@echo "make test-arithmetic  run again what computes, with other instructions and more threads"
	@echo "make record      execute the notebooks and record anew what their tests compare with"
	@echo "make scorecard   write the published results' scorecard into the README"
	@echo "make bench       how fast this machine trains, beside a plain loop and two peers; see docs/speed.md"
	@echo "make lab         open JupyterLab on the index notebook"
	@echo "make setup       only make .venv and install into it (the others do so by themselves, once)"
	@echo "make format      bring code and notebooks into the form that make test asks for"
	@echo "make clean       remove what tests and pages leave behind; .venv and results stay"
	@echo
	@echo "make setup PIP_ARGS='...'       further options for pip, such as the index of another build of torch"
	@echo "make reproduce ARGS='...'       further options for pfl-lib reproduce, such as --only waffle-table1"

setup: $(STAMP)

# The stamp holds the folder it was made in: a virtual environment knows its own path and does not survive a move.
PLACE := $(shell cat $(STAMP) 2>/dev/null)
ifneq ($(PLACE),$(HERE))
$(STAMP): FORCE
endif

$(STAMP): pyproject.toml constraints.txt
	@case '$(PLACE)' in ''|'$(HERE)') ;; *) false ;; esac && \
	$(PYTHON) -c "import sys, pip; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
		for python in python3.13 python3.12 python3.11 python3 none; do \
			"$$python" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && break; \
		done; \
		if [ "$$python" = none ]; then \
			echo "no Python 3.11 or later (with its module venv) on the PATH: install one, then run make again" >&2; exit 1; \
		fi; \
		echo "Making .venv with $$("$$python" --version) and installing into it: a few minutes, about 2 GB"; \
		"$$python" -m venv --clear .venv; }
	@$(PYTHON) -m pip install --disable-pip-version-check --no-compile $(PIP_ARGS) -c constraints.txt -e '.[test]'
	@echo '$(HERE)' > $(STAMP)

reproduce: setup
	@$(IN_VENV) $(PYTHON) -m pfl_lib reproduce $(ARGS)

# One worker more than there are cores, since browsers, kernels and programs that tests start are waited for; one thread each.
WORKERS = $$($(PYTHON) -c "from pfl_lib.federation.devices import cores; print(1 + cores())")

test: setup
	OMP_NUM_THREADS=1 $(IN_VENV) $(PYTHON) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
	@$(MAKE) --no-print-directory test-notebooks
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m nbstripout --verify $(STRIP) $(NOTEBOOKS)

# Notebooks start from an empty results folder, in which their runs are trained once, before any of them starts.
test-notebooks: setup
	@results=$$(mktemp -d) && trap 'rm -rf "$$results"' EXIT && \
	export PFL_RESULTS_DIR="$$results" PFL_HEADLESS=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(IN_VENV) && \
	$(PYTHON) -m pfl_lib reproduce --profile quick --train-only && \
	$(PYTHON) -m pytest notebooks -n $(WORKERS) --dist loadfile \
		--nbval-lax --nbval-current-env --nbval-cell-timeout 600 --timeout 900

# What adds up, with other instructions and on two threads: sums then come out with other last bits.  One process: workers side
# by side with two threads each would take turns on two cores.  Runs (run_one) are on one thread whatever is asked for.
test-threads: setup
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(IN_VENV) $(PYTHON) -m pytest \
		tests/methods/test_goldens.py tests/engine tests/federation

# Then all that computes, and every notebook, with other instructions.
test-arithmetic: export ATEN_CPU_CAPABILITY = default
test-arithmetic: test-threads
	OMP_NUM_THREADS=1 $(IN_VENV) $(PYTHON) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder tests/methods tests/experiments tests/papers
	@$(MAKE) --no-print-directory test-notebooks

# After results were published: what the pages answer, the README's scorecard and its picture.
scorecard: setup
	PFL_IGNORE_PUBLISHED=0 $(PYTHON) -m pfl_lib reproduce --plots-only $(ARGS)
	$(PYTHON) tests/pages/answers.py reports/build/executed
	PFL_IGNORE_PUBLISHED=0 $(PYTHON) tests/pages/readme.py

bench: setup
	@$(PYTHON) -m benchmarks $(ARGS)

lab: setup
	$(IN_VENV) $(PYTHON) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks/00_index.ipynb $(ARGS)

format: setup
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format
	$(PYTHON) -m nbstripout $(STRIP) $(NOTEBOOKS)

# After a change that is meant to change numbers; look at what git diff then says.
record: setup
	@results=$$(mktemp -d) && trap 'rm -rf "$$results"' EXIT && export PFL_RESULTS_DIR="$$results" OMP_NUM_THREADS=1 $(IN_VENV) && \
	$(PYTHON) tests/pages/record.py $(NOTEBOOKS)

# Outputs stay in cells tagged keep_output alone, which nbval compares; counts stay because nbval takes an output without one for an error.
STRIP = --keep-id --keep-count --extra-keys "metadata.papermill metadata.widgets cell.metadata.papermill"

clean:
	rm -rf reports/build build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find pfl_lib benchmarks notebooks tests -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
