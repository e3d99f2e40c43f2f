# Every command of the project; `make help` lists them.
#
# Each sets up what it needs in .venv, from the pins in requirements/: the first call installs, later ones do so again
# only when the pins or pyproject.toml have changed. `make demo` alone leaves out the packages of the pipeline and the
# tests; another command adds them. A machine needs Python and make; pip brings uv, uv the rest.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO_INSTALLED := $(VENV)/.demo
UV_INSTALLED := $(VENV)/.uv
UV := $(BIN)/python requirements/uv.py

# The value of a variable given on the command line, safe for the shell whatever is in it; nothing otherwise.
# The shell's own ENV, say, must not choose an environment.
comma := ,
quote = '$(subst ','\'',$(value $(1)))'
given = $(if $(filter command,$(origin $(1))),$(call quote,$(1)))
option = $(if $(call given,$(2)), $(1) $(call quote,$(2)))

# Prints the headings and the commands of a makefile, with what stands after their `##`.
list = awk -F ':.*\#\# ' '/^\#\#\# / { print (n++ ? "\n" : "") substr($$0, 5) ":" } \
  /^[a-z0-9-]+:.*\#\# / { printf "  %-18s %s\n", $$1, $$2 }' $(1)

# What `make` itself takes; every other variable on its command line is a parameter of the pipeline.
OPTIONS := TARGET ENV RUN_DIR RESUME ONLY ARGS VENV GPU
NAMES = $(strip $(foreach name,$(sort $(filter-out $(OPTIONS),$(.VARIABLES))),$(if $(call given,$(name)),$(name))))
PARAMETERS = $(foreach name,$(NAMES),$(name)=$(call quote,$(name)))

# `make` exports the variables of its command line to every command, and expands them for it: $(shell ...) would run.
unexport $(foreach name,$(.VARIABLES),$(if $(call given,$(name)),$(if $(findstring $$,$(value $(name))),$(name))))

# Whether the target is Vertex AI, whose environment is by default the one of its name.
vertex = $(if $(call given,TARGET),$(if $(filter-out local vertex,$(value TARGET)),$(error TARGET is local or vertex, not "$(value TARGET)" (Kubeflow: docs/kubeflow.md)),$(filter vertex,$(value TARGET))))
environment = $(if $(call given,ENV),ENV,$(if $(vertex),TARGET))
verb = $(if $(vertex),submit,run)
extra = $(if $(filter command,$(origin ARGS)), $(ARGS))

# Which TensorFlow .venv has: the one that GPU=1 or GPU=0 asks for, else the one that was asked for before.
CHOSEN := $(VENV)/.tensorflow
gpu_or_cpu = $(if $(filter 1,$(value GPU)),gpu,$(if $(filter 0,$(value GPU)),cpu,$(error GPU is 1 for NVIDIA GPUs or 0 for none, not "$(value GPU)")))
TENSORFLOW := $(if $(filter command,$(origin GPU)),$(gpu_or_cpu),$(or $(shell cat $(CHOSEN) 2>/dev/null),cpu))
SAME := $(filter $(TENSORFLOW),$(shell cat $(INSTALLED) 2>/dev/null))
SETS := requirements/$(TENSORFLOW).txt requirements/dev.txt

.PHONY: help install run-pipeline schedule images demo site test tests checks lint format compile requirements hooks clean

### Commands (make COMMAND)

demo: $(if $(wildcard $(INSTALLED))$(filter gpu,$(TENSORFLOW)),$(INSTALLED),$(DEMO_INSTALLED)) ## Open a local web page to try the default model: [ARGS='--model models/msinet/2 --port 8080']
	$(BIN)/python -m studio demo --open $(ARGS)

site: $(if $(wildcard $(INSTALLED))$(filter gpu,$(TENSORFLOW)),$(INSTALLED),$(DEMO_INSTALLED)) ## Write the demo page as static files that need no server, into site/ (needs npm): [ARGS='--model models/msinet/2']
	$(BIN)/python -m studio site --output-dir site $(ARGS)

run-pipeline: $(INSTALLED) ## Run the pipeline: [TARGET=local|vertex] [ENV=name] [RUN_DIR=folder] [RESUME=latest] [base_epochs=3, any parameter]
	$(BIN)/python -m pipeline $(verb)$(call option,--env,$(environment))$(call option,--run-dir,RUN_DIR)$(call option,--resume,RESUME)$(extra) $(PARAMETERS)

install: $(INSTALLED) ## Set up .venv (the other commands do it by themselves): [GPU=1 for NVIDIA GPUs of this machine, GPU=0 to go back]

clean: ## Remove what can be made again: .venv and caches (runs/ and models/ stay)
	rm -rf $(VENV) $(COMPILER) $(GPU_COMPILER) $(SERVING) $(AUDIT) $(NEWEST) $(CLUSTER) .tools build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@$(call list,$(firstword $(MAKEFILE_LIST)))

### On Vertex AI

images: $(INSTALLED) ## Build the images on Cloud Build, publish the template: ENV=prod [ONLY=cpu,gpu] [ARGS='--machine e2-highcpu-8']
	$(BIN)/python -m pipeline images$(call option,--env,ENV)$(call option,--only,ONLY)$(extra)

schedule: $(INSTALLED) ## Retrain on Vertex AI at set times, those of schedules/*.toml: ENV=prod [ARGS=--dry-run]
	$(BIN)/python -m pipeline schedule apply$(call option,--env,ENV)$(extra) $(PARAMETERS)

### To change the project (CONTRIBUTING.md)

tests: test  # else `make` finds a folder of that name, and has nothing to do
test: $(INSTALLED) ## Run the tests: [ARGS='-k name']
	@# Each of the two processes takes a file at a time, in the order of tests/conftest.py. Without one, xdist would wait.
	$(BIN)/python -m pytest --numprocesses 2 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(INSTALLED) ## Check format, style, types, and that the compiled pipeline is up to date
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pipeline compile --check

format: $(INSTALLED) ## Format the code and fix what can be fixed automatically
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

compile: $(INSTALLED) ## Write pipeline.yaml, pipeline-kubeflow.yaml and components/*.yaml
	$(BIN)/python -m pipeline compile

requirements: $(UV_INSTALLED) ## Write the pins of requirements/*.txt from pyproject.toml: [ARGS=--upgrade]
	@# The other sets follow the pins of cpu, so that all of them run the same versions; that of tpu where its TensorFlow
	@# allows them, since uv prefers the versions of the file that it writes.
	$(call pin,cpu) --universal --extra cpu --extra pipeline
	for extra in gpu dev; do $(call pin,$$extra) --universal --extra $$extra --extra pipeline --constraints requirements/cpu.txt || exit 1; done
	$(call pin,serving) --universal --extra serving --constraints requirements/cpu.txt --constraints requirements/dev.txt
	cp requirements/cpu.txt requirements/tpu.txt
	$(call pin,tpu) $(only_x86) --extra tpu --extra pipeline
	echo uv | $(call pin,uv,-) --universal
	@# These checks are for Linux x86-64 alone.
	printf '%s\n' $(COMPILER_PINS) | $(call pin,tpu-check,-) $(only_x86) --constraints requirements/tpu.txt
	printf '%s\n' $(GPU_COMPILER_PINS) | $(call pin,gpu-check,-) $(only_x86)
	printf '%s\n' $(SERVING_PINS) | $(call pin,tensorflow-2.15,-) $(only_x86)
	printf '%s\n' $(CLUSTER_PINS) | $(call pin,cluster,-) $(only_x86)
	printf '%s\n' pip-audit zizmor | $(call pin,audit,-) --universal

pin = UV_CUSTOM_COMPILE_COMMAND='make requirements' $(UV) pip compile --quiet $(ARGS) --python $(BIN)/python --python-version 3.11 \
  --generate-hashes --no-annotate --output-file requirements/$(1).txt $(or $(2),pyproject.toml)
only_x86 = --python-platform x86_64-manylinux_2_31

hooks: $(INSTALLED) ## Check style before every commit: install the pre-commit hook
	$(BIN)/pre-commit install

checks: ## List the checks by other tools, such as Kubeflow's compiler, Terraform and gcloud
	@$(call list,tests/checks.mk)

include tests/checks.mk

# `uv pip $(2)` in the environment $(1). A run imports 4000 of the 14000 files, and the first import compiles them: 10
# seconds of one core, where compiling all takes 33. Only where imports may not write bytecode is it written here. The
# lines that uv prints at its end for each package are left out. Between its downloads and its end it says nothing.
pinned = $(call fetch,$(UV) pip $(2) --python $(1)/bin/python --require-hashes $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode) --build-constraints requirements/cpu.txt 2>&1 | awk '$(said)' >&2)
said = !/^ [-+~] / { print; fflush() } /^Prepared / { print "Writing them: up to a minute"; fflush() }
fetch = $(1) || { echo "error: the packages could not be installed, as said above; if the package index cannot be reached, \
check your connection, or name your mirror with UV_DEFAULT_INDEX or with pip's index-url" >&2; exit 1; }

$(UV_INSTALLED): requirements/uv.txt
	@rm -f $@
	@{ $(BIN)/python -c '$(suitable)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1 || { $(find_python); \
	  echo "Making a Python environment for this project in $(VENV): up to half a minute"; "$$python" -m venv --clear $(VENV); }
	@echo $(TENSORFLOW) > $(CHOSEN)
	@echo "Fetching uv, which installs the packages"
	@$(call fetch,$${UV_DEFAULT_INDEX:+env PIP_INDEX_URL="$$UV_DEFAULT_INDEX"} $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<)
	@touch $@

# Each stamp is deleted first and written last, so that an interrupted installation is repeated. This one says which
# TensorFlow is installed: while that stays, packages that you added stay too.
$(INSTALLED): pyproject.toml $(SETS) $(UV_INSTALLED) $(if $(SAME),,FORCE)
	@$(BIN)/python -c '$(supported)' $(TENSORFLOW)
	@rm -f $@ $(DEMO_INSTALLED)
	@echo $(TENSORFLOW) > $(CHOSEN)
	@echo "Installing the pinned packages into $(VENV)"
	@$(call pinned,$(VENV),$(if $(SAME),install --no-deps $(addprefix --requirement ,$(SETS)),sync $(SETS)))
	@$(call project,--extra $(TENSORFLOW) --extra dev)
	@echo $(TENSORFLOW) > $@

.PHONY: FORCE

# The same versions, so that $(INSTALLED) later adds packages and replaces none.
$(DEMO_INSTALLED): pyproject.toml requirements/cpu.txt requirements/dev.txt $(UV_INSTALLED)
	@rm -f $@
	@echo "Installing the packages of the demo into $(VENV)"
	@$(call pinned,$(VENV),install --requirement pyproject.toml --extra studio --constraints requirements/cpu.txt --constraints requirements/dev.txt)
	@$(call project,--extra studio)
	@touch $@

# Installs this project beside its packages. They must have all that it needs with its extras, $(1). What builds it, the
# setuptools of the pins, is in .venv for that time alone.
project = $(BIN)/uv pip install --quiet --python $(BIN)/python --no-index --dry-run --requirement pyproject.toml $(1) || { \
  echo "error: pyproject.toml needs what requirements/ does not pin, as said above; run \`make requirements\`" >&2; exit 1; }; \
  $(call fetch,$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements/cpu.txt --editable .)

# Sets `python` to the first suitable interpreter. TensorFlow is built for the first three; predictions need none.
suitable = import sys; sys.exit(sys.version_info < (3, 11))
define find_python
python=; for each in python3.11 python3.12 python3.13 python3 python; do \
  if "$$each" -c '$(suitable)' 2>/dev/null; then python=$$each; break; fi; done; \
if [ -z "$$python" ]; then \
  echo "error: Python 3.11 or later is needed, and none of python3.11, python3.12, python3.13, python3, python on the PATH is one; install one of them" >&2; \
  exit 1; fi
endef

# Ends with a sentence on a machine that TensorFlow is not built for; the argument is cpu or gpu.
define supported
import platform, sys; \
here = platform.system() + " " + platform.machine(); \
built = {"gpu": ["Linux x86_64"], "cpu": ["Linux x86_64", "Linux aarch64", "Darwin arm64"]}[sys.argv[1]]; \
version = "%d.%d" % sys.version_info[:2]; \
later = "error: TensorFlow 2.20 is built for Python 3.11 to 3.13, and the one in $(VENV) is " + version + \
"; install python3.13 beside it, run `make clean`, then this command again (`make demo` and `make site` need no TensorFlow)"; \
sys.exit(later if sys.version_info >= (3, 14) else None if here in built else \
"error: TensorFlow 2.20 for " + sys.argv[1].upper() + "s is built for " + ", ".join(built) + "; this Python is for " + here)
endef
