"""MSI-Net (Kroner et al. 2020): its layers and their sizes, in Keras and as an ONNX graph."""
