"""Walks a guide to a service from its first command to its last, for somebody who starts from an empty project.

Each name that a command uses must have been made by an earlier command of the page, or be listed under what
you need: variables, placeholders in capitals, files, images, resources, APIs, logins and roles. What costs money
must be gone at the end. `ROWS` says what each kind of command needs, makes and removes. Commands of the shell that
write files run. Of all others only this is followed, unless a subclass runs them.
"""

import dataclasses
import pathlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence

import yaml

from tests.guide import BLOCK, ROOT
from tests.infra import blocks
from trainer.training.accelerators import Accelerator

NOBODY, OWNER = "nobody", "roles/owner"
ON_BY_DEFAULT = ("logging", "monitoring", "servicemanagement", "serviceusage", "storage")
"""APIs of a new project."""
LASTING = (
    *("account", "bucket", "claim", "cluster", "configuration", "endpoint", "grant", "infrastructure"),
    *("machines", "model", "repository", "schedule", "secret"),
)
"""Kinds of things that stay, and mostly cost money, until they are removed."""
SWITCHES = (
    *("--all", "--enable-autoscaling", "--enable-custom-service-account", "--fail-with-body", "--no-activate"),
    *("--overwrite", "--quiet", "--recursive", "--rm", "--spot", "--uniform-bucket-level-access", "-r"),
)
"""Flags without a value, of commands that write `--flag value`."""
READS = ("--data", "--data-file", "--file", "--filename", "--package-file", "--patch-file", "--request")
"""Flags of other programs whose values are files."""
WRITES_FILES = re.compile(r"(printf|sed) .* > \S+$|(rm|cp) ")
OF_THE_SHELL = ("source", "printf", "unset", "pip", "npm", "tensorboard", "sed")
CAPITALS = re.compile(r"(?<![\w$./-])[A-Z][A-Z_]+[A-Z](?![\w-])|(?<=[/:])[A-Z][A-Z_]+[A-Z](?=/|$)")
"""A placeholder that a person replaces, such as RUN and ENDPOINT_ID."""
NOT_REPLACED = {"HEAD", "ENABLED"}


@dataclasses.dataclass(frozen=True)
class Row:
    """What a kind of command needs, makes and removes.

    `{0}` and `{1}` stand for its words after the command, `{*}` for each of them, `{location}` for the value of
    `--location`; `{project}` is the project if the flag is not given.
    """

    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    role: str = OWNER
    """Role of the one who acts; NOBODY if the command asks no service of Google."""
    inside: str = ""
    """What is made goes with this thing."""
    prints: tuple[str, ...] = ()
    """Placeholders whose values are in its output."""
    then: Callable[["Walker", "Call"], None] | None = None
    """What else happens."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A command: its words after the name of the row, and its flags."""

    given: tuple[str, ...]
    flags: dict[str, str]
    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str], skipped: int) -> "Call":
        given, flags = [], {}
        rest = iter(words[skipped:])
        for word in rest:
            name, is_set, value = word.partition("=")
            if not word.startswith("-") or word == "-":
                given.append(word)
            elif is_set or name in SWITCHES:
                flags[name] = value
            else:
                flags[name] = next(rest, "")
        return cls(tuple(given), flags, tuple(words))

    def filled(self, template: str, project: str) -> Iterator[str]:
        """`template` for each word that it is about."""
        flags = {"project": project} | {name.lstrip("-").replace("-", "_"): at for name, at in self.flags.items()}
        for each in self.given if "{*}" in template else [""]:
            text = template.replace("{*}", each)
            yield re.sub(r"\{(\w+)\}", lambda name: self._value(name[1], flags), text)

    def _value(self, name: str, flags: dict[str, str]) -> str:
        if name.isdigit():
            return self.given[int(name)] if int(name) < len(self.given) else ""
        return flags.get(name, "")


# === What the commands do that a row cannot say ===


def bucket_of(address: str) -> str:
    return "/".join(address.split("/")[:3])


def copied(walker: "Walker", call: Call) -> None:
    """`gcloud storage cp`: sources to a target, one of which is on Cloud Storage."""
    *sources, target = call.given
    for source in sources:
        if source.startswith("gs://"):
            walker.need(f"object {source}")
        elif source != "-" and not source.startswith("~"):
            walker.need_some(rf"file {re.escape(source)}(/|$)")
    if not target.startswith("gs://"):
        walker.make(f"file {pathlib.Path(sources[0]).name}")
        return
    walker.need(f"bucket {bucket_of(target)}")
    for source in sources:
        name = pathlib.Path(source).name if target.endswith("/") else ""
        walker.make(f"object {target}{name}", inside=f"bucket {bucket_of(target)}")


def granted(walker: "Walker", call: Call) -> None:
    """A role for a pod exists only with the pool of identities that comes with a cluster."""
    member = call.flags.get("--member", "")
    if found := re.search(r"workloadIdentityPools/([^/]+)/", member):
        walker.need(f"identities {found[1]}")
    if found := re.search(r"(\d+)-compute@developer", member):
        walker.need("api compute.googleapis.com")  # makes that account


def pushed(walker: "Walker", call: Call) -> None:
    (image,) = call.given
    host, project, repository, *_ = image.split("/")
    walker.need(f"image {image}")
    walker.need(f"docker login {host}")
    walker.need(f"repository {host}/{project}/{repository}")
    walker.make(f"pushed {image}", inside=f"repository {host}/{project}/{repository}")


def clustered(walker: "Walker", call: Call) -> None:
    if "--workload-pool" in call.flags:
        walker.make(f"identities {call.flags['--workload-pool']}", inside=f"cluster {call.given[0]}")


def applied(walker: "Walker", call: Call) -> None:
    """`kubectl apply`, of a directory of Kubeflow Pipelines or of a file."""
    cluster = walker.the("cluster")
    if "/env/" in call.flags.get("-k", ""):
        walker.need("custom resources")
        for thing in (
            *("namespace kubeflow", "configmap kfp-launcher", "configmap workflow-controller-configmap"),
            *("deployment workflow-controller", "service/ml-pipeline-ui"),
        ):
            walker.make(thing, inside=cluster)
        for claim in ("mysql-pv-claim", "seaweedfs-pvc"):
            walker.make(f"claim {claim}", inside="namespace kubeflow")
    elif "-k" in call.flags:
        walker.make("custom resources", inside=cluster)
    for document in walker.documents(call.flags.get("--filename", "")):
        if document["kind"] == "PersistentVolumeClaim":
            # Its disk is a Filestore, which stays if the cluster is deleted without it.
            walker.need("api file.googleapis.com")
            walker.need(f"driver {document['spec']['storageClassName']}")
            walker.make(f"claim {document['metadata']['name']}", f"namespace {call.flags['--namespace']}")


def terraformed(walker: "Walker", call: Call) -> None:
    """`terraform apply` and `destroy`, on what infra/ describes."""
    whole = "infrastructure"
    if walker.default_credentials != walker.values.get("ME", "me"):
        walker.complain(f"{walker.default_credentials} may not do this")
    if "destroy" in call.words:
        if "delete_contents=true" not in call.words:
            walker.complain("buckets that hold files are not deleted")
        walker.remove(whole)
        return
    walker.make(whole)
    for name in blocks("locals")["apis"]:
        walker.make(f"api {name}.googleapis.com")
    values = {
        "project": walker.project,
        "name": "msinet",
        "location": walker.values.get("LOCATION", "us-central1"),
        "further_location": "europe-west4",
    }
    host = f"{values['location']}-docker.pkg.dev"
    for (kind, _), body in blocks("resource").items():
        name = body.get("name") or body.get("repository_id") or body.get("account_id") or ""
        name = re.sub(r"\$\{var\.(\w+)\}", lambda each: values[each[1]], name)
        thing = {
            "google_storage_bucket": f"bucket gs://{name}",
            "google_artifact_registry_repository": f"repository {host}/{walker.project}/{name}",
            "google_service_account": f"account {name}@{walker.project}.iam.gserviceaccount.com",
        }.get(kind)
        if thing:
            walker.make(thing, inside=whole)


def updated(walker: "Walker", call: Call) -> None:
    if "GcpFilestoreCsiDriver=ENABLED" in call.flags.get("--update-addons", ""):
        walker.make("driver standard-rwx", inside=f"cluster {call.given[0]}")


def pooled(walker: "Walker", call: Call) -> None:
    """A pool of an accelerator is made without quota too, and its pods wait for ever: look at it before."""
    is_tpu = call.flags["--machine-type"].startswith("ct")
    if is_tpu or "--accelerator" in call.flags:
        walker.need("limits of the region")
    if "--accelerator" in call.flags:
        walker.need("limits of the project")


def started(walker: "Walker", call: Call) -> None:
    """`kfp run create`: pods pull the images of the compiled file, and write to its bucket."""
    pipeline = next((each for each in walker.documents(call.flags["--package-file"]) if "root" in each), None)
    if pipeline is None:
        return
    executors = pipeline["deploymentSpec"]["executors"].values()
    images = {each["container"]["image"] for each in executors if "container" in each}
    images = {image for image in images if "-docker.pkg.dev/" in image}
    defaults = pipeline["root"]["inputDefinitions"]["parameters"]
    given = dict(word.split("=", 1) for word in call.given if "=" in word)
    chip = Accelerator.named(given.get("accelerator") or defaults["accelerator"]["defaultValue"]).image
    (cpu,) = images
    for image in {cpu, cpu.replace("msinet-cpu", f"msinet-{chip}")}:
        walker.need(f"pushed {image}")
        repository = f"repository {image.rpartition('/')[0]}"
        walker.need_some(rf"grant roles/artifactregistry\.reader .* {re.escape(repository)}")
    (bucket,) = {bucket_of(each) for each in re.findall(r"gs://[\w./-]+/models", str(pipeline))}
    walker.need(f"bucket {bucket}")
    walker.need_some(rf"grant roles/storage\.objectUser .* bucket {re.escape(bucket)}")
    walker.runs.append({**{name: at.get("defaultValue") for name, at in defaults.items()}, **given})


def asked(walker: "Walker", call: Call) -> None:
    """`curl`: of a server on this machine, or of Vertex AI, for a batch prediction."""
    (address,) = (each for each in call.given if "://" in each)
    if found := re.search(r"localhost:(\d+)", address):
        walker.need(f"service port {found[1]}")
    for document in walker.documents(call.flags["--data"].removeprefix("@")):
        if "batchPredictionJobs" in address:
            walker.need(f"model of {document['model'].rpartition('/')[2]}")
            for uri in document["inputConfig"]["gcsSource"]["uris"]:
                walker.need(f"object {uri}")
            output = document["outputConfig"]["gcsDestination"]["outputUriPrefix"]
            walker.need(f"bucket {bucket_of(output)}")
            walker.make(f"object {output}", inside=f"bucket {bucket_of(output)}")


def served(walker: "Walker", call: Call) -> None:
    (*_, image) = call.given
    walker.need(f"image {image}")
    for _, port in re.findall(r"(\d+):(\d+)", " ".join(call.words)):
        walker.make(f"service port {port}")


def uploaded(walker: "Walker", call: Call) -> None:
    walker.need(f"pushed {call.flags['--container-image-uri']}")
    if artifacts := call.flags.get("--artifact-uri"):
        walker.need(f"object {artifacts}")
    walker.make("model of MODEL_ID")


# === The table ===

KUBECTL = ("login of kubectl",)
USER, EDITS = "roles/aiplatform.user", "roles/storage.objectUser"
REPOSITORY = "repository {location}-docker.pkg.dev/{project}/{0}"
AI = ("api aiplatform.googleapis.com",)
ROWS = {
    "gcloud ai endpoints create": Row(AI, ("endpoint of ENDPOINT_ID",), role=USER),
    "gcloud ai endpoints delete": Row(AI, removes=("endpoint of {0}",), role=USER),
    "gcloud ai endpoints describe": Row(AI, prints=("DEPLOYED_MODEL_ID",), role=USER),
    "gcloud ai endpoints list": Row(AI, prints=("ENDPOINT_ID",), role=USER),
    "gcloud ai endpoints predict": Row((*AI, "endpoint of {0}"), role=USER),
    "gcloud ai endpoints undeploy-model": Row(AI, role=USER),
    "gcloud ai models delete": Row(AI, removes=("model of {0}",), role=USER),
    "gcloud ai models list": Row(AI, prints=("MODEL_ID",), role=USER),
    "gcloud ai models upload": Row(AI, role=USER, then=uploaded),
    "gcloud ai persistent-resources create": Row(AI, ("machines {persistent_resource_id}",), role=USER),
    "gcloud ai persistent-resources delete": Row(AI, removes=("machines {0}",), role=USER),
    "gcloud artifacts repositories add-iam-policy-binding": Row(
        (REPOSITORY,), (f"grant {{role}} to {{member}} on {REPOSITORY}",), inside=REPOSITORY, then=granted
    ),
    "gcloud artifacts repositories create": Row(("api artifactregistry.googleapis.com",), (REPOSITORY,)),
    "gcloud artifacts repositories delete": Row(removes=(REPOSITORY,)),
    "gcloud auth configure-docker": Row(makes=("docker login {0}",), role=NOBODY),
    "gcloud auth print-access-token": Row(role=USER),
    "gcloud components install": Row(makes=("program {0}",), role=NOBODY),
    "gcloud compute project-info describe": Row(("api compute.googleapis.com",), ("limits of the project",)),
    "gcloud compute regions describe": Row(("api compute.googleapis.com",), ("limits of the region",)),
    "gcloud config configurations create": Row(makes=("configuration {0}",), role=NOBODY),
    "gcloud config configurations delete": Row(removes=("configuration {0}",), role=NOBODY),
    "gcloud container clusters create": Row(("api container.googleapis.com",), ("cluster {0}",), then=clustered),
    "gcloud container clusters delete": Row(removes=("cluster {0}",)),
    "gcloud container clusters get-credentials": Row(
        ("cluster {0}", "program gke-gcloud-auth-plugin"), KUBECTL, inside="cluster {0}"
    ),
    "gcloud container clusters update": Row(("cluster {0}",), then=updated),
    "gcloud container get-server-config": Row(("api container.googleapis.com",)),
    "gcloud container node-pools create": Row(("cluster {cluster}",), then=pooled),
    "gcloud iam service-accounts create": Row(
        ("api iam.googleapis.com",), ("account {0}@{project}.iam.gserviceaccount.com",)
    ),
    "gcloud iam service-accounts delete": Row(removes=("account {0}",)),
    "gcloud projects add-iam-policy-binding": Row(makes=("grant {role} to {member} on {0}",), then=granted),
    "gcloud projects remove-iam-policy-binding": Row(removes=("grant {role} to {member} on {0}",)),
    "gcloud projects delete": Row(),
    "gcloud projects describe": Row(("api cloudresourcemanager.googleapis.com",)),
    "gcloud secrets add-iam-policy-binding": Row(
        ("secret {0}",), ("grant {role} to {member} on secret {0}",), inside="secret {0}"
    ),
    "gcloud secrets create": Row(("api secretmanager.googleapis.com",), ("secret {0}",)),
    "gcloud secrets delete": Row(removes=("secret {0}",)),
    "gcloud services enable": Row(makes=("api {*}",)),
    "gcloud storage buckets add-iam-policy-binding": Row(
        ("bucket {0}",), ("grant {role} to {member} on bucket {0}",), inside="bucket {0}", then=granted
    ),
    "gcloud storage buckets create": Row(makes=("bucket {0}",)),
    "gcloud storage cp": Row(role=EDITS, then=copied),
    "gcloud storage rm": Row(role=EDITS, removes=("bucket {*}", "object {*}")),
    "terraform apply": Row(role=NOBODY, then=terraformed),
    "terraform destroy": Row(("infrastructure",), role=NOBODY, then=terraformed),
    "terraform init": Row(role=NOBODY),
    "terraform output": Row(("infrastructure",), role=NOBODY),
    "kubectl apply": Row(KUBECTL, role=NOBODY, then=applied),
    "kubectl create secret": Row((*KUBECTL, "namespace {namespace}"), role=NOBODY),
    "kubectl delete namespace": Row(KUBECTL, removes=("namespace {0}",), role=NOBODY),
    "kubectl describe": Row(KUBECTL, role=NOBODY),
    "kubectl get": Row(KUBECTL, role=NOBODY),
    "kubectl label namespace": Row((*KUBECTL, "namespace {0}"), role=NOBODY),
    "kubectl patch configmap": Row(("configmap {0}", "namespace {namespace}"), role=NOBODY),
    "kubectl port-forward": Row(("{0}",), ("service port 8080",), role=NOBODY),
    "kubectl rollout restart deployment": Row(("deployment {0}", "namespace {namespace}"), role=NOBODY),
    "kubectl wait": Row(KUBECTL, role=NOBODY),
    "docker build": Row(("program docker",), ("image {tag}",), role=NOBODY),
    "docker push": Row(role=OWNER, then=pushed),
    "docker run": Row(role=NOBODY, then=served),
    "kfp": Row(("service port 8080", "packages"), role=NOBODY, prints=("RUN",), then=started),
    "curl": Row(role=NOBODY, then=asked),
    "base64": Row(role=NOBODY),
    "git rev-parse": Row(role=NOBODY),
    "make install": Row(makes=("packages",), role=NOBODY),
    "python -c": Row(role=NOBODY),
    "python docs/serving/client_onnx.py": Row(("file model.onnx",), role=NOBODY),
    "python docs/serving/client.py": Row(("service port 8080",), role=NOBODY),
}


# === The walk ===


class Walker:
    """Follows commands one by one; `problems` are those of somebody who types them.

    Args:
        folder: where the commands that write files run, with the files of the repository that they read.
        project: value of `$PROJECT`, and of `--project` where it is left out.
    """

    def __init__(self, folder: pathlib.Path, project: str) -> None:
        self.folder, self.project = folder, project
        self.things: dict[str, str] = {f"api {name}.googleapis.com": "" for name in ON_BY_DEFAULT}
        """What there is -> what it is removed with."""
        self.variables: dict[str, str] = {"PWD": str(folder)}
        self.placeholders: set[str] = set()
        self.cli = self.default_credentials = NOBODY
        """Who gcloud acts as, and who Terraform and this project act as."""
        self.problems: list[str] = []
        self.runs: list[dict[str, str]] = []
        """Parameters of the runs that were started."""
        self.values = {"PROJECT": project, "BUCKET": f"{project}-own"}
        """Values of variables for which the page has an example."""
        self.line = ""

    def walk(self, text: str) -> None:
        """Type the commands of all blocks of a page, or of a part of it."""
        for language, block in BLOCK.findall(text):
            for line in block.replace("\\\n", " ").splitlines() if language == "sh" else ():
                self.line = line.strip()
                if self.line and not self.line.startswith("#"):
                    self.run(self.line)

    def lists(self, text: str) -> None:
        """Take what a page lists under what you need: placeholders, variables and programs."""
        for span in re.findall(r"`([^`\n]+)`", text):
            for name in CAPITALS.findall(span) + re.findall(r"^([A-Z_]+)=", span):
                self.placeholders.add(name)
            if found := re.match(r"([A-Z_]+)=(.*)", span):
                self.variables[found[1]] = found[2]
        self.things |= {f"program {name.lower()}": "" for name in ("Docker", "Terraform") if name in text}

    def left(self) -> list[str]:
        """What stays and costs, in order."""
        return sorted(thing for thing in self.things if thing.split()[0] in LASTING)

    # What there is

    def complain(self, text: str) -> None:
        problem = f"{text}: {self.line}"
        if problem not in self.problems:
            self.problems.append(problem)

    def need(self, thing: str) -> None:
        if thing not in self.things:
            self.complain(f"there is no {thing}")

    def need_some(self, pattern: str) -> None:
        if not any(re.match(pattern, thing) for thing in self.things):
            self.complain(f"there is no {pattern.replace(chr(92), '')}")

    def make(self, thing: str, inside: str = "") -> None:
        self.things[thing] = inside

    def remove(self, thing: str, root: str = "") -> None:
        """Remove a thing with all that goes with it; claims, and their disks, outlive their cluster."""
        root = root or thing
        self.things.pop(thing, None)
        for each, inside in list(self.things.items()):
            if inside == thing and not (root.startswith("cluster ") and each.startswith("claim ")):
                self.remove(each, root)

    def the(self, kind: str) -> str:
        """The one thing of a kind; empty if there is none."""
        return next((thing for thing in self.things if thing.startswith(f"{kind} ")), "")

    def documents(self, name: str) -> list[dict]:
        """The documents of a file that was made, or is in the repository."""
        if not name or "://" in name or not name.endswith((".yaml", ".json")):
            return []
        path = self.file(name)
        if path is None:
            return []
        return [each for each in yaml.safe_load_all(path.read_text()) if each]

    # Commands

    def run(self, line: str) -> None:
        line = re.sub(r"\$\(((?:[^()]|\([^()]*\))*)\)", lambda inner: self.output_of(inner[1]), line)
        if WRITES_FILES.match(line):
            self.expanded(line)  # complains
            self.write(line)
            return
        if loop := re.fullmatch(r"for (\w+) in ([^;]*); do (.*); done", line):
            for word in loop[2].split():
                self.variables[loop[1]] = word
                self.run(loop[3])
            return
        for part in re.split(r" \| | && ", line):
            command, _, target = part.partition(" > ")
            self.command(shlex.split(command, comments=True))
            if target:
                self.make(f"file {self.expanded(target).strip()}")

    def output_of(self, command: str) -> str:
        """Run the command whose output is a part of another; a value in its place."""
        self.run(command.replace("\\", ""))
        known = {"gcloud projects describe": "123456789", "git rev-parse": "0123456789ab"}
        return next((value for start, value in known.items() if command.startswith(start)), "value")

    def write(self, line: str) -> None:
        """Run a command of the shell that writes or removes files."""
        variables = self.variables | {"PATH": "/usr/bin:/bin"}
        finished = subprocess.run(
            ["bash", "-ec", line], cwd=self.folder, env=variables, capture_output=True, text=True
        )
        if finished.returncode:
            self.complain(finished.stderr.strip())
        elif " > " in line:
            self.make(f"file {line.rpartition(' > ')[2]}")

    def expanded(self, text: str) -> str:
        def value(name: re.Match[str]) -> str:
            if name[1] not in self.variables:
                self.complain(f"nothing sets ${name[1]}")
            return self.variables.get(name[1], name[1].lower())

        return re.sub(r"\$\{?([A-Za-z]\w*)\}?", value, text)

    def command(self, words: list[str]) -> None:
        if words[0] == "export" or re.match(r"[A-Z_]+=", words[0]):
            for word in words[words[0] == "export" :]:
                variable, _, value = word.partition("=")
                self.replaced(value)
                self.variables[variable] = self.values.get(variable, self.expanded(value))
            return
        words = [self.expanded(word) for word in words]
        for word in words if words[0] != "unset" else ():
            self.replaced(word)
        if words[:2] == ["python", "-m"] or (words[0] == "make" and words[1] != "install"):
            self.need("packages")
            self.ours(words)
        elif words[0] in ("gcloud", "terraform") and self.login(words):
            return
        elif words[0] not in OF_THE_SHELL:
            self.other(words)

    def replaced(self, word: str) -> None:
        """Complain if a placeholder in a word is neither listed nor printed by an earlier command."""
        for name in CAPITALS.findall(re.sub(r"\b[A-Z_]+=", "", word)):
            if name not in self.placeholders | NOT_REPLACED:
                self.complain(f"nothing says what {name} is")

    def login(self, words: list[str]) -> bool:
        """Follow who acts; whether the command was about that."""
        line = " ".join(words[1:])
        me = self.values.get("ME", "me")
        if line.startswith("auth login"):
            self.cli = me
        elif line.startswith("auth application-default login"):
            (account,) = [word.partition("=")[2] for word in words if "impersonate" in word] or [me]
            self.default_credentials = account
        elif line.startswith(("config set auth/impersonate", "config unset auth/impersonate")):
            self.cli = words[4] if "set" in words else me
        elif line.startswith("config configurations delete"):
            self.cli = "somebody else"
            self.remove(f"configuration {words[-1]}")
        return line.startswith(("auth login", "auth application", "config set", "config unset")) or (
            "configurations delete" in line
        )

    def other(self, words: list[str]) -> None:
        """Follow a command of another program by its row."""
        plain = [word for word in words if word != "-chdir=infra"]
        name = next((row for row in ROWS if plain[: len(row.split())] == row.split()), None)
        if name is None:
            self.complain("the walker does not know this command")
            return
        row, call = ROWS[name], Call.of(plain, len(name.split()))
        self.acts(row.role, call)
        for flag in READS:
            name = call.flags.get(flag, "").removeprefix("@")
            if name not in ("", "-") and "://" not in name:
                self.file(name)
        for template in row.needs:
            for thing in call.filled(template, self.project):
                self.need(thing)
        inside = next(iter(call.filled(row.inside, self.project)), "")
        for template in row.makes:
            for thing in call.filled(template, self.project):
                self.make(thing, inside)
        if row.then:
            row.then(self, call)
        for template in row.removes:
            for thing in call.filled(template, self.project):
                self.remove(thing)
        self.placeholders |= set(row.prints)

    def file(self, name: str) -> pathlib.Path | None:
        """The file of a name, written by the page or in the repository."""
        path = next((each / name for each in (self.folder, ROOT) if (each / name).exists()), None)
        if path is None and f"file {name}" not in self.things:
            self.complain(f"there is no file {name}")
        return path

    def acts(self, role: str, call: Call) -> None:
        """Complain if the one who is logged in may not do this."""
        if role != NOBODY and self.cli == NOBODY:
            self.complain("nobody is logged in")

    def ours(self, words: list[str]) -> None:
        """Follow a command of this project: who acts, and the files that it needs and writes."""
        line = " ".join(words)
        if re.search(r"gs://|vertex://|--env prod|ENV=prod", line) and self.default_credentials == NOBODY:
            self.complain("nobody is logged in for this project")
        if re.search(r"(--env |ENV=)prod", line):
            self.need("file configs/prod.toml")
        for _, name in re.findall(r"--(output|report|preview) (\S+)", line):
            self.make(f"file {name}")
        if re.search(r"run-pipeline|pipeline (submit|runs)", line):
            self.placeholders.add("RUN")
