"""Uploads a file with tuspy: tuspy-upload.py ADDRESS FILE NAME PIECE_BYTES; 0 is its default, the whole file at once.

Runs under the Python of the benchmark's peers, and prints the seconds from the first request to the last answer.
"""

import sys
import time

from tusclient.client import TusClient

address, path, name, piece_bytes = sys.argv[1:]
start = time.monotonic()
options = {"chunk_size": int(piece_bytes)} if int(piece_bytes) else {}
TusClient(address).uploader(path, metadata={"filename": name, "relativePath": name}, **options).upload()
print(time.monotonic() - start)
