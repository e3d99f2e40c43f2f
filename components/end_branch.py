"""Task that ends a branch on Kubeflow."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def end_branch(uri: str) -> str:
    """Return the URI of the model that the branch has made.

    Kubeflow chooses between branches by their state, which its launcher writes after the last task of a branch. A
    task that is found in the cache has no launcher: a branch that ended with it would never be complete
    (`UpdateDAGExecutionsState` in kubeflow/pipelines 2.17.0, backend/src/v2/metadata/client.go), and a run whose
    base model is in the cache would fail. So this task is never cached.
    """
    return uri
