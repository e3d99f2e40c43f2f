"""Maps of images with a trained model: sizes, regions, colours, files; web pages and designs are in `studio`."""
