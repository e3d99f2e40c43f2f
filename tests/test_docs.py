"""What the documentation says can be done: its commands parse, its links lead somewhere, its table is the code's.

The quick ones of its commands run, and so do its blocks of Python.
"""

import contextlib
import functools
import io
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

import studio.__main__
import trainer.__main__
from lifecycle.runs.parameters import CONSOLE_FIELDS, SETTINGS
from pipeline.__main__ import WITH_ASSIGNMENTS, parse_arguments as parse_pipeline
from pipeline.commands.parameter_flags import passed_parameters
from tests import code_names, dataset_page
from tests.guide import BLOCK, PAGES, RESEARCH, ROOT
from tests.narrow import narrowed
from tests.test_makefile import make
from tests.trainer import predictable
from trainer.data.source_layout import assign_roles
from trainer.datasets.table import DATASETS
from trainer.io.files import write_json
from trainer.models.registry_layout import ALIASES
from trainer.network import model_folder
from trainer.network.model_folder import ASSETS_EXTRA, COMPACT_WEIGHTS, MODEL_CONFIG
from trainer.places.archive_files import Member

PROGRAMS = {"trainer": trainer.__main__, "studio": studio.__main__}
"""Package -> its command line; `pipeline` has one of another form."""
QUICK = (("trainer", "predict"), ("trainer", "datasets"), ("studio", "compare"))
"""Commands that run here, with a narrow model."""
KFP = "kfp --endpoint http://localhost:8080 run create "


def names(page):
    return page.name


# === Commands ===


def parse(words):
    """Parse the call of one of the packages by `python -m`; an error or an exit if it is wrong."""
    _, _, module, *arguments = words
    if module in PROGRAMS:
        PROGRAMS[module]._parser().parse_args(arguments)
        return
    parsed, assignments = parse_pipeline(arguments)
    if parsed.command in WITH_ASSIGNMENTS:
        given = passed_parameters(parsed, assignments)
        assert given.keys() >= {each.partition("=")[0] for each in assignments}


@functools.cache
def lines_of_make(*arguments):
    """The lines that `make` would run."""
    finished = make("--dry-run", *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@functools.cache
def help_of(module, command, flag="--help"):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        parse(["python", "-m", module, command, flag])
    text = printed.getvalue()
    return help_of(module, command, "--help-all") if flag == "--help" and "--help-all" in text else text


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_of_the_blocks_are_parsed(page):
    for words in page.commands:
        if words[:2] == ["python", "-m"] and words[2] in (*PROGRAMS, "pipeline"):
            parse(words)
        elif words[0] == "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), words
        elif words[0] == "make":
            for line in lines_of_make(*words[1:]):
                if re.search(r" -m (trainer|pipeline|studio)", line):
                    parse(shlex.split(line))
        elif shlex.join(words).startswith(KFP):
            given = {word.partition("=")[0] for word in words if re.match(r"\w+=", word)}
            assert given <= {*CONSOLE_FIELDS, SETTINGS}


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_in_sentences_exist_and_have_their_flags(page):
    for span in page.spans:
        if found := re.match(r"python -m (trainer|pipeline|studio) ([a-z][a-z-]*)(.*)", span):
            module, command, rest = found.groups()
            text = help_of(module, command)
            for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest):
                assert re.search(rf"{flag}(?![a-z-])", text), span
        elif found := re.match(r"python -m ((?:research|tests)[\w.]*)", span):
            assert (ROOT / f"{found[1].replace('.', '/')}.py").is_file(), span
        elif span.startswith("make "):
            lines_of_make(*shlex.split(span)[1:])


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory as after a training: the examples, `model`, and the registry with it."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(ROOT / "examples", folder / "examples")
    model = folder / "models" / "msinet" / "1" / ASSETS_EXTRA
    with narrowed():
        predictable.write_model(model, predictable.network(3))
        facts = {"dataset": "osie", "source": "gs://data/osie", "image_size": predictable.SIZE}
        write_json(model / MODEL_CONFIG, facts)
        write_json(folder / "models" / "msinet" / ALIASES, {"default": 1})
        (folder / "model").symlink_to(model)
        yield folder


def quick_commands():
    """Each command that runs here, once."""
    found = [words for page in PAGES for words in page.commands if words[:2] == ["python", "-m"]]
    quick = [words for words in found if tuple(words[2:4]) in QUICK and "mymodel" not in words]
    return dict.fromkeys(map(shlex.join, quick))


@pytest.mark.parametrize("command", quick_commands())
def test_quick_commands_run(command, work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    _, _, module, *arguments = shlex.split(command)
    PROGRAMS[module].main(arguments)
    assert capsys.readouterr().out


def test_blocks_of_python_run(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    (page,) = (page for page in PAGES if page.name == "docs/python.md")
    exec("\n".join(text for language, text in BLOCK.findall(page.text) if language == "python"), {})
    button, photo, change, scores = capsys.readouterr().out.splitlines()
    assert (button.partition(": ")[0], photo.partition(": ")[0]) == ("button", "photo")
    assert change.endswith("%") or change == "no clear change"
    assert [each.split()[0] for each in scores.split(", ")] == ["auc_judd", "nss", "cc", "kld", "sim"]


# === Links and tables ===


@functools.cache
def anchors(path):
    """The anchors that GitHub gives to the headings of a page, and those that its HTML names."""
    prose = BLOCK.sub("", path.read_text())
    titles = re.findall(r"^#+ (.+)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose), re.MULTILINE)
    headings = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return headings | set(re.findall(r'<\w+ (?:id|name)="([^"]+)"', prose))


@pytest.mark.parametrize("page", [*PAGES, *RESEARCH], ids=names)
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"""(?:\]\(|(?:href|src)=["'])([^)\s"']+)""", page.prose):
        path, _, anchor = link.partition("#")
        target = page.path.parent / path if path else page.path
        if "://" not in link:
            assert target.exists(), link
            assert not anchor or target.suffix != ".md" or anchor in anchors(target.resolve()), link


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_contributors_are_sent_to_exist(name):
    paths = set(
        re.findall(
            r"`((?:trainer|lifecycle|pipeline|components|studio|tests)/[\w/.]*)`", (ROOT / name).read_text()
        )
    )
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=names)
def test_names_of_code_in_pages_are_those_of_the_code(page):
    """A name in backticks is one of the code where it looks like one, and then the code has to have it.

    - `module.py` and `package/module.py` end the path of a file.
    - `first.second` is in the package, module or class `first`, if there is one.
    - `snake_case`, `CamelCase`, `CONSTANT_NAME` and `function()` are identifiers, or words in the code's texts.

    All else is none: flags, commands, files of data, addresses, values, single words. `code_names.OTHERS` has the
    names of other programs.
    """
    assert [span for span in page.spans if code_names.is_stale(span)] == []


def test_names_of_code_in_docstrings_are_those_of_the_code():
    """The rule is that of pages, and names after `see` are of modules, classes, functions, constants or fields."""
    stale = [
        (each.place, name)
        for each in code_names.docstrings()
        for name in (
            *(span for span in code_names.spans(each.text) if code_names.is_stale(span, each.parameters)),
            *(name for name in code_names.referred(each.text) if name not in code_names.defined()),
        )
    ]
    assert stale == []


@pytest.mark.parametrize(
    ("span", "is_stale"),
    [
        *[
            ("source_layout.py", False),
            ("data/source_layout.py", False),
            ("layout.py", True),
            ("io/layout.py", True),
        ],
        *[("source_layout.find_items", False), ("source_layout.find_all_items", True), ("trainer.storage", True)],
        *[("FetchConfig.source", False), ("FetchConfig.origin", True), ("np.save", False), ("report.html", False)],
        *[
            ("find_items()", False),
            ("find_all_of_them()", True),
            ("PICTURE_SUFFIXES", False),
            ("IMAGE_ENDINGS", True),
        ],
        *[("UserError", False), ("UsersError", True), ("--dataset-dir", False), ("train", False)],
    ],
)
def test_a_stale_name_is_told_from_one_of_the_code_and_from_other_words(span, is_stale):
    assert code_names.is_stale(span) == is_stale


def test_table_and_sections_of_the_datasets_are_those_of_the_rows():
    text = dataset_page.PAGE.read_text()
    written = dataset_page.BLOCK.search(text)[0]
    assert written == dataset_page.sections(), "write it with `python -m tests.dataset_page`"
    for name, row in DATASETS.items():
        if row.archives:
            assert f"| [{name}]({row.homepage}) | {row.n_train:,}, {row.n_valid:,} |" in text


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if row.archives])
def test_tree_of_each_dataset_names_files_that_it_reads(name):
    paths = [line.split()[0] for line in dataset_page.tree(DATASETS[name])]
    paths = [path.replace("SPLIT", "train").replace("CATEGORY", "Action") for path in paths]
    assigned, _ = assign_roles([Member(path, path, bytes) for path in paths], DATASETS[name])
    assert len(assigned) == len(paths) >= 2


# === What is in the repository ===


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so nothing says which files are the project's")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_tracked_files_name_no_machine_and_no_registry():
    patterns = [
        r"/(?:home|Users)/[A-Za-z]\w*",
        r"https?://[^\s\"'`)]*/simple\b",
        r"--(?:extra-)?index-url[ =]\S",
        r"--find-links[ =]\S",
        r" @ file:///\w",
    ]
    if len(ROOT.parts) > 2:
        patterns.append(re.escape(f"{ROOT}") + r"\b")
    for path in tracked_files():
        if path == pathlib.Path(__file__):
            continue  # it has the patterns themselves
        found = re.search("|".join(patterns).encode(), path.read_bytes())
        assert not found, f"{path.relative_to(ROOT)} has {found[0]!r}"


def test_no_data_and_no_weights_are_tracked():
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked_files()}
    assert not [name for name in sizes if re.search(r"\.(h5|zip|gz|mat|tfrecord|pb)$", name)]
    shipped = (model_folder.PRETRAINED_FOLDER / COMPACT_WEIGHTS).relative_to(ROOT).as_posix()
    assert not [name for name, size in sizes.items() if size > (26_000_000 if name == shipped else 6_000_000)]
