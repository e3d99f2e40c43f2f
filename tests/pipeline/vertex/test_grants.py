"""The table of roles: it is that of infra/."""

import pytest

from pipeline.vertex import doctor, doctor_questions
from tests.infra import blocks
from tests.vertex_project import ROLES

RESOURCES = {
    ("google_project_iam_member", ""): doctor.PROJECT,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.runs.name}"): doctor.BUCKET,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.models.name}"): doctor.BUCKET,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.data.name}"): doctor.DATA,
    (
        "google_artifact_registry_repository_iam_member",
        "${google_artifact_registry_repository.images.name}",
    ): doctor.IMAGES,
    (
        "google_artifact_registry_repository_iam_member",
        "${local.shared_images[count.index][2]}",
    ): doctor.IMAGES,
    (
        "google_artifact_registry_repository_iam_member",
        "${google_artifact_registry_repository.templates.name}",
    ): doctor.TEMPLATES,
}
"""A grant of Terraform, by its type and what it names -> the resource in our table."""


def terraform(account):
    """The (role, resource) pairs that infra/ grants to one of its accounts."""
    granted = set()
    for (kind, _), body in blocks("resource").items():
        if body.get("member") != f"${{local.{account}}}":
            continue
        if kind == "google_service_account_iam_member":
            own = body["service_account_id"] == f"${{google_service_account.{account}.name}}"
            resource = doctor.ITSELF if own else doctor.ACCOUNT
        else:
            resource = RESOURCES[kind, body.get("bucket") or body.get("repository") or ""]
        roles = blocks("locals")["deployer_roles"] if "for_each" in body else [body["role"]]
        granted |= {(role, resource) for role in roles}
    return granted


@pytest.mark.parametrize(("account", "table"), [("pipeline", doctor.PIPELINE), ("deployer", doctor.DEPLOYER)])
def test_table_is_what_terraform_grants(account, table):
    assert {(grant.role, grant.resource) for grant in table} == terraform(account)
    assert len(table) == len(terraform(account))


def test_agent_that_pulls_images_of_another_project_is_the_one_that_terraform_grants():
    body = blocks("resource")["google_artifact_registry_repository_iam_member", "agent_images"]
    assert body["member"] == doctor.AGENT.format("${data.google_project.own[count.index].number}")
    assert body["role"] == doctor.READS_IMAGES.role


def test_permissions_are_in_their_roles():
    for grant in (*doctor.PIPELINE, *doctor.DEPLOYER, doctor.TENSORBOARD):
        assert set(grant.permissions) <= set(ROLES[grant.role]), grant


def test_apis_are_those_that_terraform_enables():
    assert set(doctor_questions.APIS) == set(blocks("locals")["apis"])
