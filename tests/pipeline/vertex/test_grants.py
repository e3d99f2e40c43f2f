"""The table of roles: it is that of infra/."""

import pytest

from pipeline.vertex import doctor, rights
from tests.infra import blocks
from tests.vertex_project import ROLES

RESOURCES = {
    ("google_project_iam_member", ""): rights.PROJECT,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.runs.name}"): rights.BUCKET,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.models.name}"): rights.BUCKET,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.further_runs[0].name}"): rights.BUCKET,
    ("google_storage_bucket_iam_member", "${google_storage_bucket.data.name}"): rights.DATA,
    (
        "google_artifact_registry_repository_iam_member",
        "${google_artifact_registry_repository.images.name}",
    ): rights.IMAGES,
    (
        "google_artifact_registry_repository_iam_member",
        "${local.shared_images[count.index][2]}",
    ): rights.IMAGES,
    (
        "google_artifact_registry_repository_iam_member",
        "${google_artifact_registry_repository.templates.name}",
    ): rights.TEMPLATES,
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
            resource = rights.ITSELF if own else rights.ACCOUNT
        else:
            resource = RESOURCES[kind, body.get("bucket") or body.get("repository") or ""]
        roles = blocks("locals")["deployer_roles"] if "for_each" in body else [body["role"]]
        granted |= {(role, resource) for role in roles}
    return granted


@pytest.mark.parametrize(("account", "table"), [("pipeline", rights.PIPELINE), ("deployer", rights.DEPLOYER)])
def test_table_is_what_terraform_grants(account, table):
    assert {(grant.role, grant.resource) for grant in table} == terraform(account)
    assert len(table) == len(terraform(account))


def test_agent_that_pulls_images_of_another_project_is_the_one_that_terraform_grants():
    body = blocks("resource")["google_artifact_registry_repository_iam_member", "agent_images"]
    assert body["member"] == rights.AGENT.format("${data.google_project.own[count.index].number}")
    assert body["role"] == rights.READS_IMAGES.role


def test_permissions_are_in_their_roles():
    for grant in (*rights.PIPELINE, *rights.DEPLOYER, rights.TENSORBOARD, rights.FALLBACK):
        assert set(grant.permissions) <= set(ROLES[grant.role]), grant


def test_apis_are_those_that_terraform_enables():
    assert set(doctor.APIS) == set(blocks("locals")["apis"])
