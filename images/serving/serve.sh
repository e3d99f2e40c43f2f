#!/bin/bash
# Starts TensorFlow Serving, which also reads its model from Cloud Storage by itself. On Vertex AI, AIP_STORAGE_URI is a
# gs:// folder with the version in a numbered folder, and AIP_HTTP_PORT the port of the requests. A model there never
# changes. The server looks for it again only in case Cloud Storage did not answer, and not each second.
flags=(--port=8500 "--rest_api_port=${AIP_HTTP_PORT:-8501}" "--model_name=$MODEL_NAME")
if [[ -n "$AIP_STORAGE_URI" ]]; then
  flags+=("--model_base_path=$AIP_STORAGE_URI" --file_system_poll_wait_seconds=30)
else
  flags+=("--model_base_path=$MODEL_BASE_PATH/$MODEL_NAME")
fi
# In place of this shell, so that the signal to stop reaches it.
exec tensorflow_model_server "${flags[@]}" "$@"
