"""Maps of images with a trained model: sizes, regions, colours, files. Web pages and designs are in `studio`."""
