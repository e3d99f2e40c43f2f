# Every command of the project; `make help` lists them.
#
# Each sets up what it needs in .venv, from the pins in requirements/: the first call installs, later ones do so
# again only when the pins or pyproject.toml have changed. A machine needs Python and make; pip brings uv, uv the rest.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
UV_INSTALLED := $(VENV)/.uv
UV := $(BIN)/python requirements/uv.py
# The TPU compiler that needs no TPU: the libtpu of the tpu image, by the jax of its time, in an environment of its own.
COMPILER := .venv-check-tpu
COMPILER_PINS := jax==0.5.3 libtpu==0.0.10
# The TensorFlow of Google's serving containers, for Python 3.11 at the latest; its gRPC messages ask for a second one.
SERVING := .venv-serving
SERVING_PINS := tensorflow-cpu==2.15.1 tensorflow-serving-api==2.15.1
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
AUDIT := .venv-audit
EXAMPLE_WORKFLOWS := docs/check/attention.yml
# Cloud Storage as a file system: the program that Google's services mount buckets with.
GCSFUSE := .tools/bin/gcsfuse
GCSFUSE_PACKAGE := github.com/googlecloudplatform/gcsfuse/v3@v3.11.4

# The value of a variable given on the command line, safe for the shell whatever is in it; nothing otherwise.
# The shell's own ENV, say, must not choose an environment.
quote = '$(subst ','\'',$(value $(1)))'
given = $(if $(filter command,$(origin $(1))),$(call quote,$(1)))
option = $(if $(call given,$(2)), $(1) $(call quote,$(2)))

# What `make` itself takes; every other variable on its command line is a parameter of the pipeline.
OPTIONS := TARGET ENV RUN_DIR RESUME CRON TIMEZONE ONLY ARGS VENV GPU
NAMES = $(strip $(foreach name,$(sort $(filter-out $(OPTIONS),$(.VARIABLES))),$(if $(call given,$(name)),$(name))))
PARAMETERS = $(foreach name,$(NAMES),$(name)=$(call quote,$(name)))

# `make` exports the variables of its command line to every command, and expands them for it: $(shell ...) would run.
unexport $(foreach name,$(.VARIABLES),$(if $(call given,$(name)),$(if $(findstring $$,$(value $(name))),$(name))))

# A target other than this machine is named by an environment, by default the one of its name.
environment = $(if $(call given,ENV),ENV,$(if $(filter-out local,$(value TARGET)),TARGET))

# This machine runs it; any other target is told to.
verb = $(if $(call given,TARGET),$(if $(filter-out local,$(value TARGET)),submit,run),run)
extra = $(if $(filter command,$(origin ARGS)), $(ARGS))

# Which TensorFlow .venv has: the one that GPU=1 or GPU=0 asks for, else the one that was asked for before.
CHOSEN := $(VENV)/.tensorflow
gpu_or_cpu = $(if $(filter 1,$(value GPU)),gpu,$(if $(filter 0,$(value GPU)),cpu,$(error GPU is 1 for NVIDIA GPUs or 0 for none, not "$(value GPU)")))
TENSORFLOW := $(if $(filter command,$(origin GPU)),$(gpu_or_cpu),$(or $(shell cat $(CHOSEN) 2>/dev/null),cpu))
SAME := $(filter $(TENSORFLOW),$(shell cat $(INSTALLED) 2>/dev/null))
SETS := requirements/$(TENSORFLOW).txt requirements/dev.txt

.PHONY: help install run-pipeline schedule images demo test test-avx2 test-requirements test-kills test-serving fuzz check-tpu check-kubeflow check-manifests check-infra check-workflows check-packages check-mount check-images check-gcloud lint format compile requirements hooks clean

### Commands (make COMMAND)

demo: $(INSTALLED) ## Try the default model on a local web page: [ARGS='--model models/msinet/2 --port 8080']
	$(BIN)/python -m trainer demo $(ARGS)

run-pipeline: $(INSTALLED) ## Run the pipeline: [TARGET=local|vertex] [ENV=name] [RUN_DIR=folder] [RESUME=latest] [base_epochs=3, any parameter]
	$(BIN)/python -m pipeline $(verb)$(call option,--env,$(environment))$(call option,--run-dir,RUN_DIR)$(call option,--resume,RESUME)$(extra) $(PARAMETERS)

install: $(INSTALLED) ## Set up .venv (the other commands do it by themselves): [GPU=1 for NVIDIA GPUs of this machine, GPU=0 to go back]

clean: ## Remove what can be made again: .venv and caches (runs/ and models/ stay)
	rm -rf $(VENV) $(COMPILER) $(SERVING) $(AUDIT) .tools build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## List the commands
	@awk -F ':.*## ' '/^### / { print (n++ ? "\n" : "") substr($$0, 5) ":" } \
	  /^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

### On Vertex AI

images: $(INSTALLED) ## Build the images on Cloud Build, publish the template: ENV=prod [ONLY=cpu,gpu] [ARGS='--machine e2-highcpu-8']
	$(BIN)/python -m pipeline images$(call option,--env,ENV)$(call option,--only,ONLY)$(extra)

schedule: $(INSTALLED) ## Retrain on Vertex AI at set times: CRON='0 3 * * 1' [TIMEZONE=Europe/London] [ENV=vertex] [any parameter]
	$(BIN)/python -m pipeline schedule create$(call option,--env,ENV)$(call option,--cron,CRON)$(call option,--timezone,TIMEZONE)$(extra) $(PARAMETERS)

### To change the project (CONTRIBUTING.md)

test: $(INSTALLED) ## Run the tests: [ARGS='-k name']
	@# Each of the two processes takes a file at a time, in the order of tests/conftest.py.
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-avx2: $(INSTALLED) ## Run the numerics with the kernels of a CPU that has AVX2 and no AVX-512: [ARGS='-k name']
	ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/python -m pytest --numprocesses 2 -m numerics $(ARGS)

test-requirements: $(INSTALLED) ## Install each set of pins into an empty environment (minutes, gigabytes): [ARGS='-k tpu']
	$(BIN)/python -m pytest tests/install_requirements.py $(ARGS)

test-kills: $(INSTALLED) ## Kill and stop trainings and registrations at random moments, damage checkpoints (minutes)
	$(BIN)/python -m pytest tests/kill_*.py --capture no $(ARGS)

test-serving: $(INSTALLED) $(SERVING)/.installed ## Load an export in the TensorFlow 2.15 of Google's containers, send it the requests of docs/serving.md (needs a Python 3.11)
	$(BIN)/python -m pytest tests/serve_in_2_15.py $(ARGS)

fuzz: $(INSTALLED) ## Give a thousand damaged files to each reader of other people's files (minutes): [ARGS='-k fetch']
	SAMPLES=1000 $(BIN)/python -m pytest tests/test_bad_samples.py $(ARGS)

check-tpu: $(INSTALLED) $(COMPILER)/.installed ## Compile the training step for TPU v5e, without one (minutes): [ARGS='--topologies 1x1 --batches 64 --json']
	$(BIN)/python -m benchmarks.tpu_compile --compiler $(COMPILER)/bin/python $(ARGS)

check-kubeflow: $(INSTALLED) ## Have pipeline-kubeflow.yaml read by Kubeflow's compiler, Argo's validation and Kubeflow's importer (needs Go; minutes at first)
	@$(call needs_go,Kubeflow)
	$(BIN)/python -m pytest tests/check_kubeflow.py $(ARGS)

check-manifests: ## Have docs/kubernetes/ read by the code of Kubernetes and Argo Workflows (needs Go; minutes at first)
	@$(call needs_go,Kubernetes)
	cd tests/kubernetes && go run . ../../docs/kubernetes

check-infra: $(INSTALLED) ## Have infra/ validated and planned by Terraform and the google provider, without a project (needs terraform or tofu)
	$(BIN)/python -m pytest tests/check_infra.py -rs $(ARGS)

check-workflows: $(AUDIT)/.installed ## Have .github/workflows/ and the example in docs/check/ read by zizmor for weaknesses, and by actionlint (needs Go)
	$(AUDIT)/bin/zizmor --offline --quiet .github $(EXAMPLE_WORKFLOWS)
	@$(call needs_go,actionlint)
	go run $(ACTIONLINT) .github/workflows/*.yml $(EXAMPLE_WORKFLOWS)

check-packages: $(AUDIT)/.installed ## Ask PyPI for known vulnerabilities of all pinned packages (needs pypi.org itself)
	@failed=; for pins in requirements/*.txt; do \
	  echo "$$pins" && $(AUDIT)/bin/pip-audit --disable-pip --no-deps --strict --requirement "$$pins" || failed=1; done; test -z "$$failed"

check-mount: $(INSTALLED) $(GCSFUSE) ## Write what a run writes through gcsfuse to a bucket, as root and as another user (needs Go, fuse3 and /dev/fuse)
	$(BIN)/python -m pytest tests/check_mount.py $(ARGS)

check-images: $(INSTALLED) $(GCSFUSE) ## Build the cpu and tpu images without Docker and run the sample pipeline on a read-only root, with a bucket at /gcs (10 minutes, not in CI; needs root, Go, buildah, debootstrap, bubblewrap, fuse3)
	$(BIN)/python -m tests.check_images $(ARGS)

check-gcloud: $(INSTALLED) ## Give the commands of gcloud that are sent and written down to gcloud itself, on this machine (minutes; needs it)
	$(BIN)/python -m pytest tests/check_gcloud.py $(ARGS)

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
	$(call pin,cpu) --universal --extra cpu
	for extra in gpu dev; do $(call pin,$$extra) --universal --extra $$extra --constraints requirements/cpu.txt || exit 1; done
	cp requirements/cpu.txt requirements/tpu.txt
	$(call pin,tpu) $(only_x86) --extra tpu
	echo uv | $(call pin,uv,-) --universal
	@# These two checks are for Linux x86-64 alone. tensorflow-cpu is the `tensorflow` that the API needs.
	printf '%s\n' $(COMPILER_PINS) | $(call pin,tpu-check,-) $(only_x86) --constraints requirements/tpu.txt
	printf '%s\n' $(SERVING_PINS) | $(call pin,serving,-) $(only_x86) --excludes <(echo tensorflow)
	printf '%s\n' pip-audit zizmor | $(call pin,audit,-) --universal

pin = UV_CUSTOM_COMPILE_COMMAND='make requirements' $(UV) pip compile --quiet $(ARGS) --python $(BIN)/python --python-version 3.11 \
  --generate-hashes --no-annotate --output-file requirements/$(1).txt $(or $(2),pyproject.toml)
only_x86 = --python-platform x86_64-manylinux_2_31

hooks: $(INSTALLED) ## Check style before every commit: install the pre-commit hook
	$(BIN)/pre-commit install

# `uv pip $(2)` in the environment $(1). A run imports 4000 of the 14000 files, and the first import compiles them: 10
# seconds of one core, where compiling all takes 33. Only where imports may not write bytecode is it written here.
pinned = $(call fetch,$(UV) pip $(2) --python $(1)/bin/python --require-hashes $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode) --build-constraints requirements/cpu.txt)
fetch = $(1) || { echo "error: the packages could not be installed, as said above; if the package index cannot be reached, \
check your connection, or name your mirror with UV_DEFAULT_INDEX or with pip's index-url" >&2; exit 1; }

$(UV_INSTALLED): requirements/uv.txt
	@rm -f $@
	@{ $(BIN)/python -c '$(suitable)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1 || { $(find_python); "$$python" -m venv --clear $(VENV); }
	@echo $(TENSORFLOW) > $(CHOSEN)
	@$(call fetch,$${UV_DEFAULT_INDEX:+env PIP_INDEX_URL="$$UV_DEFAULT_INDEX"} $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<)
	@touch $@

# The stamp goes first and comes last, so that an interrupted installation is taken up again. It says which TensorFlow
# is installed: while that stays, packages that you added stay too.
$(INSTALLED): pyproject.toml $(SETS) $(UV_INSTALLED) $(if $(SAME),,FORCE)
	@$(BIN)/python -c '$(supported)' $(TENSORFLOW)
	@rm -f $@
	@echo $(TENSORFLOW) > $(CHOSEN)
	@echo "Installing the pinned packages into $(VENV)"
	@$(call pinned,$(VENV),$(if $(SAME),install --no-deps $(addprefix --requirement ,$(SETS)),sync $(SETS)))
	@# With the pinned packages alone: what pyproject.toml needs must be among them.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-index --no-build-isolation --editable '.[$(TENSORFLOW),dev]' || \
	  { echo "error: pyproject.toml needs what requirements/ does not pin, as said above; run \`make requirements\`" >&2; exit 1; }
	@echo $(TENSORFLOW) > $@

.PHONY: FORCE

$(COMPILER)/.installed: requirements/tpu-check.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(COMPILER)/bin/python -c '' 2>/dev/null || $(BIN)/python -m venv --clear --without-pip $(COMPILER)
	@$(call pinned,$(COMPILER),sync $<)
	@touch $@

$(SERVING)/.installed: requirements/serving.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(SERVING)/bin/python -c '' 2>/dev/null || { $(find_older_python); "$$python" -m venv --clear --without-pip $(SERVING); }
	@$(call pinned,$(SERVING),sync $<)
	@touch $@

$(AUDIT)/.installed: requirements/audit.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(AUDIT)/bin/python -c '' 2>/dev/null || $(BIN)/python -m venv --clear --without-pip $(AUDIT)
	@$(call pinned,$(AUDIT),sync $<)
	@touch $@

$(GCSFUSE):
	@$(call needs_go,gcsfuse)
	GOBIN=$(abspath $(@D)) go install $(GCSFUSE_PACKAGE)

needs_go = command -v go >/dev/null || { echo "error: $(1) is built by Go 1.26 or later, and there is no go on the PATH; install it from https://go.dev/dl" >&2; exit 1; }

# Sets `python` to the first suitable interpreter: TensorFlow 2.20 is built for Python up to 3.13.
suitable = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
define find_python
python=; for each in python3.11 python3.12 python3.13 python3 python; do \
  if "$$each" -c '$(suitable)' 2>/dev/null; then python=$$each; break; fi; done; \
if [ -z "$$python" ]; then \
  echo "error: Python 3.11, 3.12 or 3.13 is needed, and none of python3.11, python3.12, python3.13, python3, python on the PATH is one; install one of them" >&2; \
  exit 1; fi
endef

# Ends with a sentence on a machine that TensorFlow is not built for; the argument is cpu or gpu.
define supported
import platform, sys; \
here = platform.system() + " " + platform.machine(); \
built = {"gpu": ["Linux x86_64"], "cpu": ["Linux x86_64", "Linux aarch64", "Darwin arm64"]}[sys.argv[1]]; \
sys.exit(None if here in built else "error: TensorFlow 2.20 for " + sys.argv[1].upper() + "s is built for " + ", ".join(built) + \
"; this Python is for " + here)
endef

# Sets `python` to a Python 3.11, for which the pins of TensorFlow 2.15 are.
define find_older_python
python=; for each in $(BIN)/python python3.11; do \
  if "$$each" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then python=$$each; break; fi; done; \
if [ -z "$$python" ]; then \
  echo "error: TensorFlow 2.15 needs Python 3.11 here, and neither $(BIN)/python nor a python3.11 on the PATH is one; install it" >&2; \
  exit 1; fi
endef
