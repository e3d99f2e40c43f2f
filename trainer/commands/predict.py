"""Write the saliency map of each image as a PNG of the image's size."""

import argparse

HELP = "write the saliency maps of images"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", nargs="+", metavar="IMAGE")
    parser.add_argument("--model", required=True, metavar="DIR", help="Model folder, or a registered version's.")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="Folder of the maps.")


def execute(parsed: argparse.Namespace) -> None:
    from trainer.predict import predict

    predict(parsed.model, parsed.images, parsed.output_dir)
