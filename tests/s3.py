"""A real S3 protocol server on the loopback, in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from botocore.exceptions import BotoCoreError

BUCKET = "stillroom"


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve a bucket; its URI. Credentials and endpoint are in the environment meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    wanted = {
        "AWS_ACCESS_KEY_ID": "stillroom", "AWS_SECRET_ACCESS_KEY": "stillroom",
        "AWS_REGION": "us-east-1", "AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _create_bucket(endpoint)
        yield f"s3://{BUCKET}"
    finally:
        server.terminate()
        server.wait()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _create_bucket(endpoint: str) -> None:
    """Once the server answers."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    for _ in range(300):
        try:
            client.create_bucket(Bucket=BUCKET)
            return
        except BotoCoreError:
            time.sleep(0.1)
    raise TimeoutError("the S3 server does not answer")
