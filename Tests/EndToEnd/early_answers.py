"""Servers that answer before they have read a body: what they then make of it."""

import socket
import ssl
import threading

# Bodies from this length on are answered early: more than fits between two programs.
LEAST = 4 << 20
# What a connection takes before its reader reads.
BUFFER_BYTES = 16 << 10


class EarlyAnswers:
    """`answer` gives the answer (status, fields, content) to a request of which its head is known alone, or nothing where the truth is to
    be told. The name of the file says what follows: “closes” ends the connection, “begins” does so after a tenth of the body, “stays” reads
    nothing more, “later” reads everything once the test says so. Nothing of a body is kept."""

    ENDINGS = ("closes", "begins", "stays", "later")

    def __init__(self, answer, least=LEAST):
        self.answer = answer
        self.least = least
        self.may_read = threading.Event()
        self.is_over = threading.Event()
        self.lock = threading.Lock()
        # Lengths of the bodies that were answered early, and how much of them was read, for each file.
        self.answered = {}
        self.read = {}

    @staticmethod
    def limit(listener):
        """Makes a listening socket's connections take little beforehand."""
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)

    def answer_to(self, request, name, length):
        """What is to be answered early; nothing where the truth is to be told."""
        if not name or "victim" not in name or length < self.least or self.is_over.is_set():
            return None
        answer = self.answer(request, name, length)
        if answer is not None:
            with self.lock:
                self.answered.setdefault(name, []).append(length)
        return answer

    def take(self, handler, name, length):
        """Whether it is one to be answered early; then that has been done."""
        answer = self.answer_to(handler, name, length)
        if answer is None:
            return False
        handler.send(*answer)
        handler.wfile.flush()
        handler.close_connection = True
        try:
            self.end(handler, name, length)
        except (OSError, ssl.SSLError):
            # The client has given up.
            pass
        return True

    def end(self, handler, name, length):
        if "begins" in name:
            self.read_some(handler, name, length // 10)
        elif "stays" in name:
            self.is_over.wait(60)
        elif "later" in name:
            self.may_read.wait(60)
            self.read_some(handler, name, length)
            handler.close_connection = False

    def read_some(self, handler, name, left):
        while left and (piece := handler.rfile.read(min(left, 1 << 16))):
            left -= len(piece)
            with self.lock:
                self.read[name] = self.read.get(name, 0) + len(piece)
