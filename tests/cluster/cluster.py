"""A cluster of one node with Kubeflow Pipelines, of processes on this machine.

Kubernetes, etcd, Argo Workflows and the object store are built by Go from the modules that the folders beside
this file name. containerd, runc, MariaDB and dnsmasq are Debian's, and the core of ML Metadata is its Python
package's. Kubeflow's own programs and manifests are those of the folder that KFP names. Everything runs in the
namespaces of the process that starts it (`unshare`), and ends with it.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.oci import write_image

HERE = pathlib.Path(__file__).parent
ADDRESS = "10.96.0.1"
"""Address of every service: Kubernetes gives it to its own, and the name server to all names."""
NODE = "10.0.0.1"
PODS = "10.88.0.0/16"
NAMESPACE = "kubeflow"
TOKEN = "cluster-admin"
DRIVER, LAUNCHER, EXECUTOR, PAUSE = (f"localhost/{name}:1" for name in ("driver", "launcher", "argoexec", "pause"))
READY_SECONDS = 120


class Cluster:
    """The processes of a cluster, and what is asked of it.

    Args:
        folder: for data and logs.
        tools: folder of the programs that Go built.
        python: Python with `ml-metadata`.
    """

    def __init__(self, folder, tools, python):
        self.folder, self.tools, self.python = folder, tools, python
        self.processes, self.nodes = {}, 0
        self.kubeconfig = folder / ".kube" / "config"
        os.environ["KUBECONFIG"] = str(self.kubeconfig)

    # === Processes ===

    def start(self, name, *command, **variables):
        """Start a process of the cluster; its log is NAME.log."""
        # Memory is cheaper here than the processors' time for the garbage of the programs in Go.
        environment = os.environ | {"HOME": str(self.folder), "GOGC": "400"}
        environment |= {each: str(value) for each, value in variables.items()}
        words = [str(each) for each in command]
        with (self.folder / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(
                words, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def stop(self, name):
        """Stop a process at once, as a machine that loses its power does."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def close(self):
        """Stop all processes."""
        for name in list(self.processes):
            self.stop(name)

    def until(self, name, ready, seconds=READY_SECONDS):
        """Wait until `ready()` is true; the result. Fails with the end of NAME's log."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError, subprocess.CalledProcessError, StopIteration):
                if answer := ready():
                    return answer
            process = self.processes.get(name)
            if process and process.poll() is not None:
                break
            time.sleep(0.5)
        raise TimeoutError(f"{name} is not ready:\n{(self.folder / f'{name}.log').read_text()[-3000:]}")

    def run(self, *command, **options):
        """Run a program to its end; what it said."""
        return subprocess.run(
            [str(each) for each in command], check=True, stdout=subprocess.PIPE, text=True, **options
        ).stdout

    def kubectl(self, *arguments, content=None, **options):
        """Run kubectl, with objects on its input if there are some; what it said."""
        text = content and json.dumps({"apiVersion": "v1", "kind": "List", "items": content})
        return self.run(self.tools / "kubectl", *arguments, input=text, **options)

    def get(self, *words):
        """What `kubectl get` finds: an object, or a list of them."""
        said = json.loads(self.kubectl("get", *words, "--output=json"))
        return said["items"] if said["kind"] == "List" else said

    # === Start ===

    def start_kubernetes(self):
        """Start Kubernetes without a node."""
        self._network()
        self._kubernetes()

    def start_kubeflow(self, kfp, images):
        """Start a node, and Kubeflow.

        Args:
            kfp: folder with `bin/` and `manifests/kustomize/` of a release of Kubeflow Pipelines.
            images: archives whose images the node gets.
        """
        self._node(kfp, images)
        self._apply_manifests(kfp)
        self._stores()
        self._kubeflow(kfp)

    def _network(self):
        for command in (
            ("link", "set", "lo", "up"),
            ("link", "add", "services", "type", "bridge"),
            ("link", "set", "services", "up"),
            ("address", "add", f"{ADDRESS}/32", "dev", "services"),
            ("address", "add", f"{NODE}/24", "dev", "services"),
            ("route", "add", "default", "via", NODE),
        ):
            self.run("ip", *command)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        names = self.folder / "resolv.conf"
        names.write_text(f"nameserver {ADDRESS}\n")
        self.run("mount", "--bind", names, "/etc/resolv.conf")
        self.start("dnsmasq", "dnsmasq", "--no-daemon", "--no-resolv", "--no-hosts", f"--address=/#/{ADDRESS}")

    def _kubernetes(self):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        accounts, certificates = self.folder / "accounts.key", self.folder / "certificates"
        accounts.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.kubeconfig.parent.mkdir()
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "clusters": [
                        {
                            "name": "here",
                            "cluster": {
                                "server": f"https://{ADDRESS}:443",
                                "certificate-authority": str(certificates / "apiserver.crt"),
                            },
                        }
                    ],
                    "users": [{"name": "admin", "user": {"token": TOKEN}}],
                    "contexts": [
                        {"name": "here", "context": {"cluster": "here", "user": "admin", "namespace": NAMESPACE}}
                    ],
                }
            )
        )
        self.start(
            "etcd",
            self.tools / "server",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self.start(
            "kube-apiserver",
            self.tools / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--advertise-address={NODE}",
            "--secure-port=443",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--allow-privileged",
            f"--service-account-signing-key-file={accounts}",
            f"--service-account-key-file={accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            # As on GKE, whose nodes with GPUs and TPU chips are tainted.
            "--enable-admission-plugins=ExtendedResourceToleration",
        )
        self.until(
            "kube-apiserver", lambda: self.kubectl("get", "--raw=/readyz", stderr=subprocess.DEVNULL) == "ok"
        )
        self.start(
            "kube-controller-manager",
            self.tools / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={accounts}",
            f"--root-ca-file={certificates / 'apiserver.crt'}",
            # Nodes without a kubelet stay ready (check_nodes.py).
            "--node-monitor-grace-period=1h",
        )
        self.start(
            "kube-scheduler",
            self.tools / "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
        )

    def _node(self, kfp, images):
        networks = self.folder / "networks"
        networks.mkdir()
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.folder / "addresses"),
                "ranges": [[{"subnet": PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
        (networks / "pods.conflist").write_text(json.dumps(network))
        socket = self.folder / "containerd.sock"
        (self.folder / "containerd.toml").write_text(
            f"""version = 2
root = "{self.folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{networks}"
"""
        )
        self.start("containerd", "containerd", f"--config={self.folder / 'containerd.toml'}")
        self.until("containerd", lambda: self.containers("version", stderr=subprocess.DEVNULL))
        for name, program, called in (
            (DRIVER, kfp / "bin" / "driver", "driver"),
            (LAUNCHER, kfp / "bin" / "launcher-v2", "launcher-v2"),
            (EXECUTOR, self.tools / "argoexec", "argoexec"),
            (PAUSE, shutil.which("catatonit"), "pause"),
        ):
            archive = self.folder / "image.tar"
            arguments = ("-P",) if name == PAUSE else ()
            write_image(archive, name, program, called=called, arguments=arguments)
            self.containers("images", "import", archive)
            archive.unlink()
        for archive in images:
            self.containers("images", "import", archive)
        (self.folder / "kubelet.yaml").write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                    "authorization": {"mode": "AlwaysAllow"},
                    "containerRuntimeEndpoint": f"unix://{socket}",
                    "cgroupDriver": "cgroupfs",
                    "cgroupsPerQOS": False,
                    "enforceNodeAllocatable": [],
                    "failCgroupV1": False,
                    "failSwapOn": False,
                    "oomScoreAdj": 0,
                    "clusterDNS": [ADDRESS],
                    "clusterDomain": "cluster.local",
                    "resolvConf": "",
                    "podLogsDir": str(self.folder / "pods"),
                    "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%"},
                    "imageGCHighThresholdPercent": 100,
                    "nodeStatusUpdateFrequency": "4s",
                    "maxPods": 200,
                }
            )
        )
        self.add_node()

    def add_node(self):
        """Start a kubelet, which registers a node; returns when the node is ready."""
        self.nodes += 1
        self.start(
            "kubelet",
            self.tools / "kubelet",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--hostname-override={self.node}",
            f"--node-ip={NODE}",
        )

        def ready():
            conditions = self.get("node", self.node)["status"]["conditions"]
            return next(each["status"] == "True" for each in conditions if each["type"] == "Ready")

        self.until("kubelet", ready)

    @property
    def node(self):
        """The name of the present node."""
        return f"node-{self.nodes}"

    def lose_node(self):
        """Take the node away as a cloud does with a Spot machine; another comes in its place.

        Its programs end at once, and its object is deleted.
        """
        self.stop("kubelet")
        for container in self.containers("tasks", "list", "--quiet").split():
            with contextlib.suppress(subprocess.CalledProcessError):  # it has ended by itself
                self.containers("tasks", "kill", "--signal=SIGKILL", container)
        self.kubectl("delete", "node", self.node)
        self.add_node()

    def containers(self, *command, **options):
        """Ask the node's containerd; what it said."""
        return self.run(
            "ctr", f"--address={self.folder / 'containerd.sock'}", "--namespace=k8s.io", *command, **options
        )

    def _apply_manifests(self, kfp):
        """Apply Kubeflow's and Argo's definitions, accounts, roles and settings: all but what would start pods."""
        argo = self.tools / "argo" / "manifests"
        manifests = kfp / "manifests" / "kustomize"
        for part in (
            argo / "base" / "crds" / "full",
            manifests / "base" / "pipeline" / "cluster-scoped",
            manifests / "base" / "installs" / "generic",
            argo / "namespace-install" / "workflow-controller-rbac",
        ):
            documents = yaml.load_all(self.kubectl("kustomize", part), Loader=yaml.CSafeLoader)
            kept = [each for each in documents if each["kind"] not in ("Deployment", "Service")]
            self.kubectl("apply", "--server-side", "--filename=-", content=[_namespace(), *kept])
        settings = (manifests / "third-party/argo/base/workflow-controller-configmap-patch.yaml").read_text()
        bucket = self.get("configmap", "pipeline-install-config")["data"]["bucketName"]
        for name, value in {"kfp-namespace": NAMESPACE, "kfp-artifact-bucket-name": bucket}.items():
            settings = settings.replace(f"$({name})", value)
        secret = {"accesskey": "minio", "secretkey": "minio123"}
        self.kubectl(
            "apply",
            "--filename=-",
            content=[
                yaml.safe_load(settings),
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "mlpipeline-minio-artifact"},
                    "stringData": secret,
                },
            ],
        )

    def _stores(self):
        self.start(
            "objects", self.tools / "gofakes3", "-host=:9000", "-backend=memory", "-initialbucket=mlpipeline"
        )
        self.start(
            "metadata", self.python, HERE / "metadata_server.py", "0.0.0.0:8080", self.folder / "metadata.db"
        )
        database = self.folder / "mariadb"
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={database}",
            "--user=root",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        self.start(
            "mariadb",
            "mariadbd",
            "--no-defaults",
            f"--datadir={database}",
            "--user=root",
            "--socket=/run/mariadb.sock",
            "--skip-grant-tables",
            "--skip-networking=0",
            "--innodb-flush-log-at-trx-commit=0",
        )

    def _kubeflow(self, kfp):
        config = self.folder / "config"
        config.mkdir()
        tokens = pathlib.Path("/run/secrets/kubeflow/tokens")
        tokens.mkdir(parents=True)
        for name in ("persistenceagent", "scheduledworkflow"):
            account = f"ml-pipeline-{name}"
            said = self.kubectl("create", "token", account, "--audience=pipelines.kubeflow.org", "--duration=24h")
            (tokens / f"{name}-sa-token").write_text(said.strip())
        (config / "config.json").write_text(
            json.dumps(
                {
                    "DBConfig": {
                        "MySQLConfig": {
                            "DBName": "mlpipeline",
                            "User": "root",
                            "Host": ADDRESS,
                            "Port": "3306",
                            "GroupConcatMaxLen": "4194304",
                        },
                        "ConMaxLifeTime": "120s",
                    },
                    "ObjectStoreConfig": {
                        "AccessKey": "minio",
                        "SecretAccessKey": "minio123",
                        "BucketName": "mlpipeline",
                        "PipelinePath": "pipelines",
                        "Host": ADDRESS,
                        "Port": "9000",
                        "Secure": False,
                    },
                    "DBDriverName": "mysql",
                    "InitConnectionTimeout": "2m",
                    "DEFAULTPIPELINERUNNERSERVICEACCOUNT": "pipeline-runner",
                    "CacheEnabled": "true",
                    "CRON_SCHEDULE_TIMEZONE": "UTC",
                }
            )
        )
        programs = kfp / "bin"
        self._start_argo()
        self.start(
            "ml-pipeline",
            programs / "apiserver",
            f"--config={config}",
            "--logtostderr=true",
            POD_NAMESPACE=NAMESPACE,
            ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_HOST=ADDRESS,
            ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_PORT=8889,
            V2_DRIVER_IMAGE=DRIVER,
            V2_LAUNCHER_IMAGE=LAUNCHER,
            PUBLISH_LOGS="true",
            PIPELINE_LOG_LEVEL="1",
        )
        self.until("ml-pipeline", lambda: urllib.request.urlopen(f"{self.endpoint}/apis/v2beta1/healthz").read())
        agent = (
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={NAMESPACE}",
            "--logtostderr=true",
        )
        self.start(
            "persistence",
            programs / "persistence",
            *agent,
            "--ttlSecondsAfterWorkflowFinish=86400",
            "--numWorker=2",
        )
        self.start(
            "scheduledworkflow",
            programs / "scheduledworkflow",
            *agent,
            "--clientQPS=10",
            "--clientBurst=20",
            "--recurringRunResyncIntervalSeconds=10",
            "--metricsPort=9091",
            CRON_SCHEDULE_TIMEZONE="UTC",
        )

    def _start_argo(self):
        self.start(
            "workflow-controller",
            self.tools / "workflow-controller",
            "--configmap=workflow-controller-configmap",
            f"--executor-image={EXECUTOR}",
            "--namespaced",
            f"--managed-namespace={NAMESPACE}",
            LEADER_ELECTION_DISABLE="true",
            DEFAULT_REQUEUE_TIME="1s",
            ARGO_NAMESPACE=NAMESPACE,
            TRANSIENT_ERROR_PATTERN=(
                "(?i)(imminent node shutdown|node is shutting down|preempt|evict|spot|pod deleted)"
            ),
        )

    def set_workflow_defaults(self, defaults):
        """Replace Argo's defaults for workflows, such as when tasks are retried, by a text of YAML."""
        patch = {"data": {"workflowDefaults": defaults}}
        self.kubectl("patch", "configmap", "workflow-controller-configmap", f"--patch={json.dumps(patch)}")
        self.stop("workflow-controller")
        self._start_argo()

    @property
    def endpoint(self):
        """Address of the API server of Kubeflow Pipelines."""
        return f"http://{ADDRESS}:8888"


def _namespace():
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
    }
