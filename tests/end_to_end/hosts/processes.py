"""The processes of a test. Their output is read as it comes, so the test waits for the output itself; PATIENCE_S only ends
a test that fails."""
import pathlib
import subprocess
import sys
import threading

PATIENCE_S = 100
TAIL_BYTES = 2000


def fail(why):
    sys.exit(f"FAILED {pathlib.Path(sys.argv[0]).stem}: {why}")


class Program:
    """A process that runs `words` and whose stdout and stderr are kept together."""

    def __init__(self, name, words):
        self.name = name
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.changed = threading.Condition()
        self.output, self.ended = b"", False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while True:
            more = self.process.stdout.read1()
            with self.changed:
                self.output += more
                self.ended = not more
                self.changed.notify_all()
            if not more:
                return

    def tail(self):
        with self.changed:
            return self.output[-TAIL_BYTES:].decode(errors="replace")

    def _line_with(self, text):
        return next((line for line in self.output.decode(errors="replace").split("\n")[:-1] if text in line), None)

    def await_line(self, text):
        """Returns the first line with `text` once all of it has come."""
        with self.changed:
            self.changed.wait_for(lambda: self._line_with(text) or self.ended, PATIENCE_S)
            line = self._line_with(text)
        if line is None:
            fail(f"{self.name} never said {text!r}: {self.tail()}")
        return line

    def await_success(self):
        with self.changed:
            ended = self.changed.wait_for(lambda: self.ended, PATIENCE_S)
        if not ended:
            fail(f"{self.name} does not end: {self.tail()}")
        if self.process.wait() != 0:
            fail(f"{self.name} ended with {self.process.returncode}: {self.tail()}")

    def kill(self):
        """Also if it has ended."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
