# Checks by tools and environments of their own; `make checks` lists them. The Makefile includes this file.

# The TPU compiler that needs no TPU: the libtpu of the tpu image, by the jax of its time, in an environment of its own.
COMPILER := .venv-check-tpu
COMPILER_PINS := jax==0.5.3 libtpu==0.0.10
# XLA's compiler for NVIDIA GPUs that needs no GPU: of a recent jax, with the ptxas and libdevice of NVIDIA's wheels.
GPU_COMPILER := .venv-check-gpu
GPU_COMPILER_PINS := jax==0.10.2 jax-cuda13-plugin==0.10.2 jax-cuda13-pjrt==0.10.2 nvidia-cuda-nvcc==13.5.37
# The TensorFlow of Google's serving containers, for Python 3.11 at the latest.
SERVING := .venv-serving
SERVING_PINS := tensorflow-cpu==2.15.1
# The core of ML Metadata, for the cluster of check-cluster, and its programs that Go builds.
CLUSTER := .venv-cluster
CLUSTER_PINS := ml-metadata==1.17.0 setuptools==80.9.0
CLUSTER_TOOLS := .tools/cluster
ARGO := github.com/argoproj/argo-workflows/v4
CLUSTER_IMAGE := .tools/msinet-cpu.tar
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
AUDIT := .venv-audit
NEWEST := .venv-newest
# The guides of which a machine without an account, a browser or a device can run the commands.
GUIDES := $(addprefix docs/,quickstart.md demo.md check.md data.md commands.md python.md sweep.md serving.md)
EXAMPLE_WORKFLOWS := docs/check/attention.yml
# Cloud Storage as a file system: the program that Google's services mount buckets with.
GCSFUSE := .tools/bin/gcsfuse
GCSFUSE_PACKAGE := github.com/googlecloudplatform/gcsfuse/v3@v3.11.4
# The program that loads the server. Go checks the module against its public database of checksums.
VEGETA := .tools/bin/vegeta
VEGETA_PACKAGE := github.com/tsenart/vegeta/v12@v12.13.0

.PHONY: test-avx2 test-requirements test-kills test-serving fuzz check-tpu check-gpu check-kubeflow check-manifests check-infra check-workflows check-packages check-mount check-serving-load check-images check-gcloud check-cluster check-newest check-guides cluster-needs

### Checks (make COMMAND)

test-avx2: $(INSTALLED) ## Run the numerics with the kernels of a CPU that has AVX2 and no AVX-512: [ARGS='-k name']
	ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/python -m pytest --numprocesses 2 -m numerics $(ARGS)

test-requirements: $(INSTALLED) ## Install each set of pins into an empty environment (minutes, gigabytes): [ARGS='-k tpu']
	$(BIN)/python -m pytest tests/install_requirements.py $(ARGS)

test-kills: $(INSTALLED) ## Kill and stop trainings, registrations and predictions at random moments, damage checkpoints (minutes)
	$(BIN)/python -m pytest tests/kill_*.py --capture no $(ARGS)

test-serving: $(INSTALLED) $(SERVING)/.installed ## Load a SavedModel in the TensorFlow 2.15 of Google's containers (needs a Python 3.11)
	$(BIN)/python -m pytest tests/serve_in_2_15.py $(ARGS)

fuzz: $(INSTALLED) ## Give a thousand damaged files to each reader of other people's files (minutes): [ARGS='-k fetch']
	SAMPLES=1000 $(BIN)/python -m pytest tests/test_bad_samples.py $(ARGS)

check-tpu: $(INSTALLED) $(COMPILER)/.installed ## Compile the training step for TPU v5e, without one, and compare its memory with `plan` (minutes): [ARGS='--topologies 1x1 --batches 64 --json']
	$(BIN)/python -m tests.tpu_compile --compiler $(COMPILER)/bin/python $(ARGS)

check-gpu: $(INSTALLED) $(GPU_COMPILER)/.installed ## Compile the training step for T4, L4, A100 and H100, without one, and compare its memory with `plan` (minutes): [ARGS='--chips l4 --batches 64 --json']
	$(BIN)/python -m tests.gpu_compile --compiler $(GPU_COMPILER)/bin/python $(ARGS)

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

check-serving-load: $(INSTALLED) $(VEGETA) ## Load the server with eight clients, overload it, and stop it at work (10 minutes; needs Go): [DURATION=60 seconds in place of 300]
	DURATION=$(or $(call given,DURATION),300) $(BIN)/python -m pytest tests/check_serving_load.py --capture no $(ARGS)

check-images: $(INSTALLED) $(GCSFUSE) ## Build the cpu and tpu images without Docker and run the sample pipeline on a read-only root, with a bucket at /gcs (10 minutes, not in CI; needs root, Go, buildah, debootstrap, bubblewrap, fuse3)
	$(BIN)/python -m tests.check_images $(ARGS)

check-gcloud: $(INSTALLED) ## Give the commands of gcloud that are sent and written down to gcloud itself, on this machine (minutes; needs it)
	$(BIN)/python -m pytest tests/check_gcloud.py $(ARGS)

check-cluster: $(INSTALLED) cluster-needs $(CLUSTER)/.installed $(CLUSTER_TOOLS)/.installed $(if $(call given,KFP),$(CLUSTER_IMAGE)) ## Have training pods placed by Kubernetes, and with KFP=FOLDER run the pipeline on a Kubeflow of this machine (needs root, Go and packages of Debian: research/kubeflow.md)
	unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc env KFP=$(call given,KFP) CLUSTER_TOOLS=$(CLUSTER_TOOLS) \
	  CLUSTER_PYTHON=$(CLUSTER)/bin/python CLUSTER_IMAGE=$(CLUSTER_IMAGE) $(BIN)/python -m pytest tests/cluster/check_*.py --durations 0 $(ARGS)

check-newest: $(INSTALLED) ## Run the tests with the newest releases, without the ceilings of pyproject.toml (minutes, gigabytes): [ARGS=tests/trainer]
	rm -rf $(NEWEST) && $(BIN)/python -m venv --without-pip $(NEWEST)
	$(BIN)/python -m tests.ceilings > $(NEWEST)/overrides.txt
	$(UV) pip install --quiet --python $(NEWEST)/bin/python --override $(NEWEST)/overrides.txt --editable '.[cpu,dev]'
	$(NEWEST)/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check-guides: ## Type the commands of README and of the guides of this machine on Debians where nothing is lent (an hour; needs root and debootstrap): [PAGES=docs/check.md]
	@folder=$$(mktemp -d); trap "rm -rf $$folder" EXIT; export DEBIANS=$$folder; \
	.ci/on_debian trixie python3 -m tests.bare_machine $(or $(call given,PAGES),README.md $(GUIDES)); \
	$(if $(call given,PAGES),,for suite in bookworm testing; do .ci/on_debian $$suite python3 -m tests.bare_machine README.md; done)

# === Their environments and tools ===

cluster-needs: $(INSTALLED)
	@$(BIN)/python -m tests.cluster.lacking $(call given,KFP)

$(CLUSTER)/.installed: requirements/cluster.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(CLUSTER)/bin/python -c '' 2>/dev/null || { $(find_older_python); "$$python" -m venv --clear --without-pip $(CLUSTER); }
	@$(call pinned,$(CLUSTER),sync $<)
	@touch $@

# Argo Workflows is built in a copy of its module, because a module has no symbolic links, and one of its files is one.
$(CLUSTER_TOOLS)/.installed: $(foreach module,argo kubernetes storage,tests/cluster/$(module)/go.mod)
	@$(call needs_go,Kubernetes)
	for module in kubernetes storage; do \
	  (cd tests/cluster/$$module && GOBIN=$(abspath $(@D)) CGO_ENABLED=0 go install -ldflags='-s -w' tool) || exit 1; done
	rm -rf $(@D)/argo
	cd tests/cluster/argo && go mod download && cp -r --no-preserve=mode "$$(go list -m -f '{{.Dir}}' $(ARGO))" $(abspath $(@D))/argo
	ln -s signal_darwin.go $(@D)/argo/workflow/executor/osspecific/signal_linux.go
	cd $(@D)/argo && CGO_ENABLED=0 go build -ldflags='-s -w' -o $(abspath $(@D))/ ./cmd/argoexec ./cmd/workflow-controller
	@touch $@

$(CLUSTER_IMAGE): images/Dockerfile pyproject.toml README.md LICENSE NOTICE $(shell find components configs lifecycle pipeline requirements trainer -type f ! -path '*/__pycache__/*') | $(INSTALLED)
	$(BIN)/python -m tests.containers cpu $@

$(COMPILER)/.installed: requirements/tpu-check.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(COMPILER)/bin/python -c '' 2>/dev/null || $(BIN)/python -m venv --clear --without-pip $(COMPILER)
	@$(call pinned,$(COMPILER),sync $<)
	@touch $@

$(GPU_COMPILER)/.installed: requirements/gpu-check.txt | $(UV_INSTALLED)
	@rm -f $@
	@$(GPU_COMPILER)/bin/python -c '' 2>/dev/null || $(BIN)/python -m venv --clear --without-pip $(GPU_COMPILER)
	@$(call pinned,$(GPU_COMPILER),sync $<)
	@touch $@

$(SERVING)/.installed: requirements/tensorflow-2.15.txt | $(UV_INSTALLED)
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

$(VEGETA):
	@$(call needs_go,vegeta)
	GOBIN=$(abspath $(@D)) go install $(VEGETA_PACKAGE)

needs_go = command -v go >/dev/null || { echo "error: $(1) is built by Go 1.26 or later, and there is no go on the PATH; install it from https://go.dev/dl" >&2; exit 1; }

# Sets `python` to a Python 3.11, for which the pins of TensorFlow 2.15 are.
define find_older_python
python=; for each in $(BIN)/python python3.11; do \
  if "$$each" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then python=$$each; break; fi; done; \
if [ -z "$$python" ]; then \
  echo "error: this check needs Python 3.11, and neither $(BIN)/python nor a python3.11 on the PATH is one; install it" >&2; \
  exit 1; fi
endef
