"""A server of maps, by the protocols of Vertex AI's custom containers and of KServe (V1).

Its image is `images/serving/`. The demo page is in `studio/demo/`, and which endpoint has which version
in `lifecycle/registry/`.
"""
