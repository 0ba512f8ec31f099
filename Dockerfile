# The server with the bundled model, on the CPU; docs/docker.md says how to use it.
#   docker build -t mini-vllm . && docker run --rm -p 127.0.0.1:8000:8000 mini-vllm
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir --index-url $TORCH_INDEX torch==2.13.0
WORKDIR /mini_vllm
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY labkit labkit
COPY mini_vllm mini_vllm
RUN PIP_BUILD_CONSTRAINT=constraints.txt pip install --no-cache-dir -c constraints.txt '.[engine,serve]'
RUN useradd --create-home --uid 1000 reader
USER reader
EXPOSE 8000
CMD ["mini-vllm", "serve", "--host", "0.0.0.0"]
