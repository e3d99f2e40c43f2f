"""The gRPC service of ML Metadata, answered by the library inside the Python package `ml-metadata`.

python metadata_server.py ADDRESS DATABASE
"""

import sys
from concurrent import futures

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store
from ml_metadata.proto import metadata_store_pb2, metadata_store_service_pb2

SERVICE = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]
CODES = {code.value[0]: code for code in grpc.StatusCode}


def serve(address, database):
    """Serve the database of SQLite at the path `database` until the process ends."""
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = database
    store = metadata_store.CreateMetadataStore(
        config.SerializeToString(), metadata_store_pb2.MigrationOptions().SerializeToString()
    )

    def handler(method):
        function = getattr(metadata_store, method)

        def answer(request, context):
            response, message, code = function(store, request)
            if code:
                context.abort(CODES[code], message.decode())
            return response

        return grpc.unary_unary_rpc_method_handler(answer)

    names = [method.name for method in SERVICE.methods if hasattr(metadata_store, method.name)]
    # One thread: a store of this library is not to be used by several at once.
    server = grpc.server(futures.ThreadPoolExecutor(1))
    handlers = {name: handler(name) for name in names}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)])
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(*sys.argv[1:])
