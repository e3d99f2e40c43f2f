"""Reads the Terraform files of infra/, and fills in their outputs for a project."""

import functools
import pathlib
import re

import hcl2

FOLDER = pathlib.Path(__file__).parent.parent / "infra"
FILES = sorted(FOLDER.glob("*.tf"))
PLAIN = hcl2.SerializationOptions(strip_string_quotes=True, with_comments=False, explicit_blocks=False)
PROJECT = "my-project-1"
FURTHER = "europe-west4"


@functools.cache
def blocks(kind):
    """Each block of a kind in all files, by its label or labels."""
    bodies = {}
    for path in FILES:
        for block in hcl2.loads(path.read_text(), serialization_options=PLAIN).get(kind, []):
            for label, body in block.items():
                if kind == "resource":
                    bodies |= {(label, name): resource for name, resource in body.items()}
                else:
                    bodies[label] = body
    return bodies


def filled(text):
    """`text` with its references replaced by their values in a project."""
    values = {
        "var.project": PROJECT,
        "var.location": blocks("variable")["location"]["default"],
        "var.further_location": FURTHER,
        "var.name": blocks("variable")["name"]["default"],
        "local.image_repository": blocks("locals")["own_images"],
    }
    for (kind, name), body in blocks("resource").items():
        for attribute, shown in (("name", "name"), ("repository_id", "repository_id"), ("account_id", "email")):
            if attribute in body:
                values[f"{kind}.{name}.{shown}"] = body[attribute]

    def value(reference):
        template = values[reference[1]]
        is_account = reference[1].endswith(".email")
        return f"{filled(template)}@{PROJECT}.iam.gserviceaccount.com" if is_account else filled(template)

    return re.sub(r"\$\{([\w.]+)\}", value, text.replace("[0]", ""))


def environment_text(file="outputs.tf"):
    """The environment that an output writes. With `regions.tf`, the one of the other region."""
    text = (FOLDER / file).read_text()
    (content,) = re.findall(r"<<-TOML\n(.*?)\n\s*TOML\n", text, re.DOTALL)
    return filled("\n".join(line.strip() for line in content.splitlines()))
