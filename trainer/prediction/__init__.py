"""Maps of images, regions, overlays, and two designs compared."""
