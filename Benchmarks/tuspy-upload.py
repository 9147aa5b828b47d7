"""Uploads with tuspy: tuspy-upload.py ADDRESS FILE NAME PIECE_BYTES; 0 is its default, the whole file at once.
Of a folder, tuspy-upload.py ADDRESS FOLDER STREAMS PIECE_BYTES, all files under their own names, so many at the same time.

Runs under the Python of the benchmark's peers, and prints the seconds from the first request to the last answer.
"""

import concurrent.futures
import pathlib
import sys
import time

from tusclient.client import TusClient

address, path, how, piece_bytes = sys.argv[1:]
path = pathlib.Path(path)
options = {"chunk_size": int(piece_bytes)} if int(piece_bytes) else {}


def upload(file, name):
    TusClient(address).uploader(str(file), metadata={"filename": name, "relativePath": name}, **options).upload()


start = time.monotonic()
if path.is_dir():
    with concurrent.futures.ThreadPoolExecutor(int(how)) as pool:
        for uploading in [pool.submit(upload, file, file.name) for file in sorted(path.iterdir())]:
            uploading.result()
else:
    upload(path, how)
print(time.monotonic() - start)
