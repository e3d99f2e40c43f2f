"""The names that the code has, and those in backticks that it does not have."""

import ast
import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator

from lifecycle.runs.parameters import PARAMETERS
from tests.guide import ROOT

PACKAGES = ("components", "lifecycle", "pipeline", "studio", "trainer")
FOLDERS = (*PACKAGES, "docs", "examples", "images", "research", "tests")
FILE = re.compile(
    r"[\w.-]+\.(csv|css|gz|h5|html|jinja|jpg|js|json|jsonl|keras|mat|md|mk|npy|npz|onnx|pb|png|svg|tf|toml|txt|yaml)"
)
"""A file of data, which looks like a name in a module."""
TEXTS = (".html", ".jinja", ".js", ".mk", ".sh", ".tf", ".toml", ".yaml", ".yml")
"""Endings of files whose words are names too."""
OTHERS = frozenset(
    [
        *(
            "AttributeProto",
            "ModelContainerSpec",
            "mergedTemplateDefaultsInto",
            "ModelDeployOp",
            "UpdateDAGExecutionsState",
            "ValueInfoProto",
        ),
        *("NCCL_RETURN_IF_ERROR", "RLIMIT_AS", "ZONE_RESOURCE_POOL_EXHAUSTED", "getPlaceholders", "tRNS"),
        *("check_if_job_exists", "create_custom_training_job_from_component", "preemptible_cpus"),
        *("custom_job/remote_runner.py", "gcp_launcher/job_remote_runner.py", "strategy.run(step)"),
        *("CPUS_ALL_REGIONS", "GPUS_ALL_REGIONS", "NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS"),
        *("TPU_LITE_PODSLICE_V5", "PREEMPTIBLE_TPU_LITE_PODSLICE_V5"),
        "benchmarks/fetch_rate.py",  # of an experiment, in the history alone
        *("aspp_conv1_4", "gain_kld_low", "gain_kld_high"),  # made of parts
        *("base_X", "finetune_X", "step_X", "parameters.NAME"),  # one of several
    ]
)
"""Names of other programs, and forms of names."""


@dataclasses.dataclass(frozen=True)
class Docstring:
    """A docstring, the place of its beginning, and the parameters of the function that it describes."""

    place: str
    text: str
    parameters: frozenset[str]


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Path of each Python file below FOLDERS -> its syntax tree."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


@functools.cache
def docstrings() -> list[Docstring]:
    """Those of PACKAGES: of modules, classes and functions, and those below constants and fields."""
    return [
        Docstring(f"{path}:{text.lineno}", str(text.value), _parameters(node))
        for path, tree in trees().items()
        if path.split("/")[0] in PACKAGES
        for node in ast.walk(tree)
        for text in _texts(node)
    ]


def _texts(node: ast.AST) -> Iterator[ast.Constant]:
    """The texts that stand alone in the body of a module, a class or a function."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        for each in node.body:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                yield each.value


def _parameters(node: ast.AST) -> frozenset[str]:
    is_function = isinstance(node, ast.FunctionDef)
    return (
        frozenset(each.arg for each in ast.walk(node) if isinstance(each, ast.arg)) if is_function else frozenset()
    )


# === What there is ===


@functools.cache
def words() -> frozenset[str]:
    """The identifiers of the code, the words in its texts but docstrings, and those of files of other kinds."""
    found = set(PARAMETERS)
    for path, tree in trees().items():
        documentation = {id(text) for node in ast.walk(tree) for text in _texts(node)}
        for node in ast.walk(tree):
            for field in ("id", "attr", "name", "arg", "asname", "module"):
                found |= set(str(getattr(node, field, "")).split("."))
            if isinstance(node, ast.Constant) and id(node) not in documentation and path != "tests/test_docs.py":
                found |= set(re.findall(r"\w+", str(node.value)))
    for folder in (*FOLDERS, "configs", "infra", "schedules", ".github", ""):
        for file in (ROOT / folder).glob("**/*" if folder else "*"):
            if file.name == "Makefile" or file.suffix in TEXTS:
                found |= set(re.findall(r"\w+", file.read_text()))
    return frozenset(found)


@functools.cache
def members() -> dict[str, set[str]]:
    """Name of a package, a module or a class -> the names in it. `*` is one of them if others are inherited."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    bases: dict[str, set[str]] = collections.defaultdict(set)
    for path, tree in trees().items():
        *parents, name = path.removesuffix(".py").removesuffix("/__init__").split("/")
        found[name] |= set(_defined(tree.body))
        for outer, inner in itertools.pairwise([*parents, name]):
            found[outer].add(inner)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= set(_defined(node.body)) | {
                    each.attr
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
                }
                bases[node.name] |= {
                    re.split(r"\[", ast.unparse(each))[0].rpartition(".")[2] for each in node.bases
                }
    for _ in range(5):  # bases of bases
        for name, parents_of in bases.items():
            for base in parents_of:
                found[name] |= found[base] if base in bases else {"*"}
    return dict(found)


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements define: by `def`, `class`, `import` and assignments."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name).split(".")[0] for each in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            yield from _defined(node.body)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


# === What there is not ===


def spans(text: str) -> list[str]:
    """The code within the sentences of a docstring."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"``.*?``", "", text))


def referred(text: str) -> list[str]:
    """The names after the word `see`, which are of modules, functions, classes or constants."""
    return [
        name
        for names in re.findall(r"\bsee ((?:`\w+`(?:, and |, | and )?)+)", text)
        for name in re.findall(r"\w+(?=`)", names)
    ]


def is_stale(span: str, parameters: frozenset[str] = frozenset()) -> bool:
    """Whether code in a sentence looks like a name of this project's code, and the code has none like it."""
    if span in OTHERS or FILE.fullmatch(span):
        return False
    if re.fullmatch(r"[\w./-]+\.py", span):
        return not any(f"/{path}".endswith(f"/{span.removeprefix('./')}") for path in trees())
    name = re.sub(r"\(.*\)$", "", span)
    if re.fullmatch(r"[A-Za-z]\w*(\.\w+)+", name):
        return name.split(".")[0] not in parameters and _leads_nowhere(name.split("."))
    is_code = re.fullmatch(r"[A-Za-z]\w*", name) and (name != span or re.search(r"[a-z][A-Z]|\w_\w", name))
    return bool(is_code) and name not in words()


def _leads_nowhere(parts: list[str]) -> bool:
    """Whether a dotted name begins with a package, a module or a class of the code, and does not exist in it."""
    for outer, inner in itertools.pairwise(parts):
        if outer not in members() or "*" in members()[outer]:
            return False
        if inner not in members()[outer]:
            return True
    return False


@functools.cache
def defined() -> frozenset[str]:
    """The names of packages, modules, classes, functions, constants and fields."""
    return frozenset(members()) | {name for names in members().values() for name in names}
