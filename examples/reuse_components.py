"""A pipeline of one's own from three components of this project: prepare data, train on them, evaluate."""

import pathlib

from kfp import dsl
from kfp.components import load_component_from_file

COMPONENTS = pathlib.Path(__file__).parents[1] / "components"
fetch, train, evaluate = (
    load_component_from_file(str(COMPONENTS / f"{name}.yaml"))
    for name in ("fetch_dataset", "train_msinet", "evaluate_model")
)


@dsl.pipeline(name="msinet-example")  # type: ignore[untyped-decorator]
def example(source: str = "sample", image_size: str = "72x96", epochs: int = 1, settings: dict = {}) -> None:  # type: ignore[type-arg]  # noqa: B006
    """Train MSI-Net on SALICON, or on generated pictures."""
    data = fetch(dataset="salicon", source=source, image_size=image_size, settings=settings).outputs["prepared"]
    training = train(dataset=data, epochs=epochs, batch_size=4, settings={"initial_weights": "none"})
    evaluate(model=training.outputs["model"], finetune_data=data)
