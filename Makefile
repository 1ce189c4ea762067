# Everything a contributor does, and all that CI does. Needs only make, git and Python 3.11 or newer.
.PHONY: demo lab test lint

VENV = .venv
INSTALLED = $(VENV)/.installed
# The interpreter that makes .venv: `make PYTHON=python3.13` names it; otherwise the first that is new enough.
PYTHON =
EXTRAS = lab,test
NOTEBOOKS = notebooks/*.ipynb
# More options of JupyterLab, such as `make lab LAB=--no-browser`.
LAB =

demo: $(INSTALLED)
	$(VENV)/bin/jobplaybook demo

# On this machine only, and with a token; the folder above the notebooks is open too, for their links to runbooks.
lab: $(INSTALLED)
	$(VENV)/bin/jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=. \
		--LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb $(LAB)

# Notebook outputs are compared with the committed ones: the zone and the hash seed are part of them.
test: $(INSTALLED)
	$(VENV)/bin/python -m pytest
	@set -- $(NOTEBOOKS); if [ ! -e "$$1" ]; then exit 0; fi; \
	echo "notebooks against their stored outputs:"; \
	TZ=UTC PYTHONHASHSEED=0 $(VENV)/bin/python -m pytest \
		--nbval --nbval-current-env --nbval-cell-timeout=60 "$$@"

lint: $(INSTALLED)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# One environment with every extra, whichever target asked for it first; made again when its recipe changes.
$(INSTALLED): pyproject.toml
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
		if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "making $(VENV) with $$python (about a minute, only once)"; \
			exec "$$python" -m venv $(VENV); \
		fi; \
	done; \
	echo "found no Python 3.11 or newer with its venv module (on Debian: python3-venv):" \
		"install one, or name it with make PYTHON=/path/to/python3" >&2; \
	exit 1
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $(INSTALLED)
