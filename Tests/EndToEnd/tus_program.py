"""Runs a tus server of other people in this process: tus_program.py KIND PORT FOLDER [OPTIONS AS JSON].

It runs under the Python of .build/test-servers. What is complete is copied below FOLDER/published, under the path that its
metadata names; the metadata is beside it, below FOLDER/metadata, and FOLDER/completions has a line for each time.
"""

import http.server
import json
import os
import pathlib
import shutil
import socket
import socketserver
import sys
import threading


def publish(folder, source, metadata):
    name = metadata["relativePath"]
    for kind in ("published", "metadata"):
        (folder / kind / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "metadata" / name).write_text(json.dumps(metadata))
    # Whole at once, as a reader sees it. Uploads are completed side by side.
    copy = folder / f"copying-{threading.get_ident()}"
    shutil.copyfile(source, copy)
    os.replace(copy, folder / "published" / name)
    with open(folder / "completions", "a") as completions:
        completions.write(name + "\n")


def listen(port):
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    found.listen(64)
    print(f"listening {found.getsockname()[1]}", flush=True)
    return found


def without(extensions, hidden):
    """The value of Tus-Extension for a server that is to announce fewer."""
    return ",".join(word for word in extensions.split(",") if word.strip() not in hidden)


def bound_locks(seconds):
    """tuspyserver answers nobody while it waits for an upload that a broken request still holds: 30 s, unless it is told."""
    from tuspyserver import lock

    if seconds is not None:
        acquire = lock.FileLock.acquire
        lock.FileLock.acquire = lambda self, blocking=True, timeout=seconds: acquire(self, blocking, min(timeout, seconds))


def tuspyserver(port, folder, options):
    import uvicorn
    from fastapi import FastAPI
    from tuspyserver import create_tus_router

    bound_locks(options.pop("lock_seconds", None))
    hidden = options.pop("hidden_extensions", [])
    app = FastAPI()
    app.include_router(
        create_tus_router(
            prefix="files", files_dir=str(folder / "uploads"),
            on_upload_complete=lambda path, metadata: publish(folder, path, metadata), **options))

    async def hiding(scope, receive, send):
        async def shown(message):
            for number, (name, value) in enumerate(message.get("headers", [])):
                if name == b"tus-extension":
                    message["headers"][number] = (name, without(value.decode(), hidden).encode())
            await send(message)

        await app(scope, receive, shown)

    uvicorn.Server(uvicorn.Config(hiding, log_level="warning")).run(sockets=[listen(port)])


def resumable_upload(port, folder, options):
    from resumable_upload import SQLiteStorage, TusHTTPRequestHandler, TusServer
    from resumable_upload.locks import InMemoryLockBackend

    hidden = options.pop("hidden_extensions", [])
    storage = SQLiteStorage(db_path=str(folder / "uploads.db"), upload_dir=str(folder / "uploads"))
    tus = TusServer(
        storage=storage, base_path="/files", lock_backend=InMemoryLockBackend(),
        on_upload_complete=lambda upload, metadata, facts: publish(folder, storage.get_file_path(upload), metadata),
        **options)

    class Handler(TusHTTPRequestHandler):
        tus_server = tus

        def send_header(self, name, value):
            super().send_header(name, without(value, hidden) if name.lower() == "tus-extension" else value)

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listen(port)
    server.serve_forever()


if __name__ == "__main__":
    kind, port, folder, options = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]), json.loads(sys.argv[4])
    {"tuspyserver": tuspyserver, "resumable-upload": resumable_upload}[kind](port, folder, options)
