"""Maps of images and of long pages, regions, and the files that are written of them."""
