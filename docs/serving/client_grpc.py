"""Write the saliency map of a photograph by TensorFlow Serving's gRPC API; it needs tensorflow-serving-api.

python client_grpc.py localhost:8500 PHOTO MAP
"""

import pathlib
import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

address, photo, written = sys.argv[1:]
request = predict_pb2.PredictRequest()
request.model_spec.name, request.model_spec.signature_name = "msinet", "serve_bytes"
request.inputs["image_bytes"].CopyFrom(tf.make_tensor_proto([pathlib.Path(photo).read_bytes()]))
with grpc.insecure_channel(address, [("grpc.max_receive_message_length", 2**26)]) as channel:
    answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=60)
pathlib.Path(written).write_bytes(answer.outputs["saliency_bytes"].string_val[0])
