"""What a receiver shows, from the first moment to the last."""

import hashlib
import os
import threading


class Published:
    """Looks at a receiver's files all the time, and remembers each content that it sees: (path, SHA-256) → size."""

    def __init__(self, folder, every=0.005):
        self.folder, self.every = folder, every
        self.seen = {}
        self._known = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.look()

    def _run(self):
        while not self._stop.wait(self.every):
            self.look()

    def look(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    with open(path, "rb") as file:
                        status = os.fstat(file.fileno())
                        key = status.st_ino, status.st_mtime_ns, status.st_size
                        if self._known.get(path) == key:
                            continue
                        content = file.read()
                except FileNotFoundError:
                    continue
                self._known[path] = key
                self.seen[os.path.relpath(path, self.folder), hashlib.sha256(content).digest()] = len(content)
