"""Answers on loopback as TensorFlow Serving's REST and gRPC APIs are documented to, for tests.

    python tests/serving_server.py NAME=BASE_PATH [NAME=BASE_PATH ...]

Runs under any TensorFlow and knows nothing of the project. The model is found as TensorFlow Serving does it, in a
folder of numbered ones, here or on Cloud Storage, and run as it does it: as a graph in a session. Prints the
version of TensorFlow, the port of the REST API and that of gRPC (0 without tensorflow-serving-api), and serves
until its input ends.
"""

import base64
import concurrent.futures
import http.server
import json
import sys
import threading
from typing import Any

import numpy as np
import tensorflow as tf

DEFAULT = "serving_default"


class RequestError(Exception):
    """A request that is answered with status 400."""


def latest_version(base_path):
    """Path of the version to serve, as PollFileSystemForServable of TensorFlow Serving finds it.

    Source: sources/storage_path/file_system_storage_path_source.cc.
    """
    if not tf.io.gfile.exists(base_path):
        raise FileNotFoundError(f"Could not find base path {base_path}")
    # On Cloud Storage, a listing has all that is below.
    children = {child.partition("/")[0] for child in tf.io.gfile.listdir(base_path)}
    return f"{base_path}/{max((child for child in children if child.isdecimal()), key=int)}"


class Model:
    """A SavedModel in a session."""

    def __init__(self, path):
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            loaded = tf.compat.v1.saved_model.load(self._session, ["serve"], path)
        self.signatures = loaded.signature_def

    def run(self, signature, inputs):
        """Arrays by name, from a function of each input's name and type to its array."""
        if signature not in self.signatures:
            raise RequestError(f'Serving signature name: "{signature}" not found in signature def')
        definition = self.signatures[signature]
        feed = {info.name: inputs(name, tf.as_dtype(info.dtype)) for name, info in definition.inputs.items()}
        outputs = dict(definition.outputs)
        try:
            values = self._session.run([info.name for info in outputs.values()], feed)
        except (tf.errors.OpError, ValueError) as error:
            raise RequestError(str(error).splitlines()[0]) from None
        return dict(zip(outputs, values, strict=True))


# === REST: api_rest.md of TensorFlow Serving ===


def predict(model, body):
    """The answer to the JSON `body` of a predict request."""
    request = json.loads(body)
    signature = request.get("signature_name", DEFAULT)
    if ("instances" in request) == ("inputs" in request):
        raise RequestError("either 'instances' or 'inputs', and not both")
    if "inputs" in request:
        given = request["inputs"]
        found = model.run(signature, lambda name, dtype: tensor(of_name(given, name), dtype))
        columns = {name: listed(name, value) for name, value in found.items()}
        return {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    rows = request["instances"]
    found = model.run(signature, lambda name, dtype: tensor([of_name(row, name) for row in rows], dtype))
    columns = {name: listed(name, value) for name, value in found.items()}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def of_name(given, name):
    """The value of an input, which needs no name where it is the only one; {"b64": ...} is a value."""
    if not isinstance(given, dict) or set(given) == {"b64"}:
        return given
    if set(given) != {name}:
        raise RequestError(f"inputs are {', '.join(given)}, and not {name}")
    return given[name]


def tensor(value, dtype):
    def binary(each):
        if isinstance(each, list):
            return [binary(one) for one in each]
        return base64.b64decode(each["b64"], validate=True) if isinstance(each, dict) else each.encode()

    if dtype == tf.string:
        return np.array(binary(value), object)
    try:
        return np.array(value, dtype.as_numpy_dtype)
    except (TypeError, ValueError):
        raise RequestError("JSON Value is not a number, or lists are of different lengths") from None


def listed(name, value):
    """An output for JSON: bytes in base64 where the name ends with `_bytes`."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()} if name.endswith("_bytes") else value.decode()
    return [listed(name, each) for each in value] if value.dtype == object else value.tolist()


class Server(http.server.ThreadingHTTPServer):
    models: dict[str, Any]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        name = self.path.removeprefix("/v1/models/")
        if name not in self.server.models:
            return self.answer(404, {"error": f"Could not find any versions of model {name}"})
        status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        return self.answer(200, {"model_version_status": [status]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name, _, verb = self.path.removeprefix("/v1/models/").partition(":")
        if name not in self.server.models or verb != "predict":
            return self.answer(404, {"error": f"Servable not found for request: Latest({name})"})
        try:
            return self.answer(200, predict(self.server.models[name], body))
        except RequestError as error:
            return self.answer(400, {"error": str(error)})

    def answer(self, status, content):
        content = json.dumps(content, indent=2).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Say nothing."""


# === gRPC ===


def serve_grpc(models):
    """Start a server of PredictionService; its port, 0 where its messages are not installed."""
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError:
        return 0, None
    import grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802 - gRPC's name
            spec = request.model_spec
            try:
                found = models[spec.name].run(
                    spec.signature_name or DEFAULT, lambda name, _: tf.make_ndarray(request.inputs[name])
                )
            except RequestError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            return predict_pb2.PredictResponse(
                outputs={name: tf.make_tensor_proto(value) for name, value in found.items()}
            )

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return port, server


def main():
    """Serve the models that the command line names."""
    models = {
        name: Model(latest_version(path)) for name, _, path in (each.partition("=") for each in sys.argv[1:])
    }
    rest = Server(("127.0.0.1", 0), Handler)
    rest.models = models
    grpc_port, grpc_server = serve_grpc(models)
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    print(tf.__version__, rest.server_port, grpc_port, flush=True)
    sys.stdin.read()
    if grpc_server:
        grpc_server.stop(None).wait()


if __name__ == "__main__":
    main()
