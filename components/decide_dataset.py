"""Task that decides what must be known of all images of a dataset at once, and cuts it into shards."""

from typing import NamedTuple

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)  # type: ignore[untyped-decorator]
def decide_dataset(
    dataset: str,
    source: str,
    output_dir: str,
    settings: dict,  # type: ignore[type-arg]
) -> NamedTuple("Outputs", [("tasks", list[int]), ("worker_pools", list[list])]):  # type: ignore[valid-type]
    """Write the plan of a dataset into `output_dir`, and return the numbers of its shards.

    `worker_pools` has the worker pools of a custom job for each shard, with a disk for its part of the source.
    """
    from lifecycle.machines import BatchMachines
    from trainer.data import FetchConfig, PreparedData
    from trainer.errors import reported
    from trainer.places import stored_at
    from trainer.settings import configs_of

    with reported():
        image, is_test_set, gigabytes = (settings.pop(name) for name in ("image", "test", "shard_gigabytes"))
        named = {"dataset": dataset, "source": source}
        config, machines = configs_of({**settings, **named}, FetchConfig, BatchMachines)
        prepared = PreparedData(stored_at(output_dir).mounted)
        sizes = prepared.decide(config, test_of=dataset if is_test_set else "", shard_gigabytes=gigabytes)
        shards = list(range(len(sizes)))
        words = [[output_dir, str(shard)] for shard in shards]
        return shards, machines.worker_pools(image, "trainer.data.stages", words, [size / 1e9 for size in sizes])
