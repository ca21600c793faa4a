"""redis-cli on a terminal, as a person types, through the script of the matrix (../README.md)."""

import atexit
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from harness import run

HOST, PORT = sys.argv[1].rsplit(":", 1)
# The prompt at the beginning of a line, with nothing behind it but where the cursor goes.
WAITS = rf"(?:^|[\r\n])(?:\x1b\[0K)?(?:{re.escape(HOST)}:{PORT}(?:\(TX\))?|not connected)> (?:\r\x1b\[\d+C)?$"
# The last line of an answer that took half a second or more, as a blocked command's does, and any on a busy machine.
TOOK = r"\n\(\d+\.\d\ds\)$"
PATIENCE = 20


class Terminal:
    def __init__(self):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            # Before it asks: a terminal without a size is asked where its cursor is.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 500, 0, 0))
            env = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": "/nonexistent"}
            os.execvpe("redis-cli", ["redis-cli", "-h", HOST, "-p", PORT], env)
        self.seen = ""
        self.until(WAITS)

    def until(self, pattern):
        """Everything that is shown until the pattern is, and forgets it."""
        end = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.file], [], [], max(0, end - time.monotonic()))
            assert ready, f"waited too long for {pattern!r}, shown is {self.seen!r}"
            self.seen += os.read(self.file, 65536).decode(errors="replace")
        shown, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return shown

    def type(self, text):
        os.write(self.file, text.encode())

    def start(self, line):
        self.type(line + "\r")

    def answer(self):
        # The line itself was drawn anew with each letter; the answer begins on the next one.
        shown = self.until(rf"\n(?s:.*){WAITS}")
        text = re.sub(WAITS, "", shown[shown.index("\n") :]).replace("\r", "").strip("\n")
        return re.sub(TOOK, "", text)

    def ask(self, line):
        self.start(line)
        return self.answer()

    def expect(self, line, *answers):
        """Asks, and is content with one of the answers."""
        got = self.ask(line)
        assert got in answers, f"{line} is answered {got!r}, not {' or '.join(map(repr, answers))}"

    def close(self):
        # Not Ctrl-C, which is not heard between two messages.
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


class Matrix:
    def __init__(self):
        self.redis = Terminal()

    def key(self, name):
        return f"{sys.argv[2]}:{name}"

    def connect(self):
        self.redis.expect("PING", "PONG")
        # What to type next, in grey, is from COMMAND DOCS.
        for command, hint in ("get", "key"), ("lrange", "key start stop"), ("hget", "key field"):
            self.redis.type(command + " ")
            self.redis.until(rf"{command} \x1b\[[0-9;]*m{hint}")
            self.redis.type("\x15")  # Ctrl-U: the line is empty again
            self.redis.until(WAITS)
        help = self.redis.ask("HELP GET")
        assert "since:" in help, help

    def strings(self):
        expect, k = self.redis.expect, self.key("string")
        expect(f"GET {k}", "(nil)")
        expect(f'SET {k} "a value"', "OK")
        expect(f"GET {k}", '"a value"')
        expect(f"APPEND {k} !", "(integer) 8")
        expect(f"GET {k}", '"a value!"')
        expect(f"MGET {k} {self.key('absent')}", '1) "a value!"\n2) (nil)')
        expect(f"DEL {k}", "(integer) 1")
        expect(f"GET {k}", "(nil)")

    def expiry(self):
        expect, k = self.redis.expect, self.key("expiry")
        expect(f"SET {k} 1 EX 100", "OK")
        expect(f"TTL {k}", "(integer) 100", "(integer) 99", "(integer) 98")
        expect(f"PEXPIRE {k} 60", "(integer) 1")
        end = time.monotonic() + PATIENCE
        while self.redis.ask(f"GET {k}") != "(nil)":
            assert time.monotonic() < end, "does not expire"
        expect(f"TTL {k}", "(integer) -2")

    def pipeline(self):
        k = self.key("pipe")
        commands = [["SET", f"{k}{i}", str(i)] for i in range(200)]
        commands += [["RPUSH", k, "a", "b"], ["INCR", k], ["LRANGE", k, "0", "-1"]]
        protocol = "".join(f"*{len(c)}\r\n" + "".join(f"${len(a)}\r\n{a}\r\n" for a in c) for c in commands)
        piped = subprocess.run(
            ["redis-cli", "-h", HOST, "-p", PORT, "--pipe"], input=protocol, capture_output=True, text=True, timeout=60
        )
        assert "errors: 1, replies: 203" in piped.stdout, piped
        assert "WRONGTYPE" in piped.stderr, piped
        self.redis.expect(f"GET {k}199", '"199"')

    def transaction(self):
        expect, k = self.redis.expect, self.key("balance")
        expect(f"SET {k} 10", "OK")
        expect("MULTI", "OK")
        expect(f"INCRBY {k} 5", "QUEUED")
        expect(f"GET {k}", "QUEUED")
        expect("EXEC", '1) (integer) 15\n2) "15"')
        other = Terminal()
        for meanwhile in True, False:
            expect(f"WATCH {k}", "OK")
            if meanwhile:
                other.expect(f"SET {k} 100", "OK")
            expect("MULTI", "OK")
            expect(f"SET {k} 200", "QUEUED")
            expect("EXEC", "(nil)" if meanwhile else "1) OK")
        expect(f"GET {k}", '"200"')
        other.close()

    def pubsub(self):
        expect, channel = self.redis.expect, self.key("channel")
        subscriber = Terminal()
        subscriber.start(f"SUBSCRIBE {channel}")
        subscriber.until(rf'1\) "subscribe"\s+2\) "{channel}"\s+3\) \(integer\) 1')
        expect(f'PUBLISH {channel} "hello\\x00"', "(integer) 1")
        subscriber.until(rf'1\) "message"\s+2\) "{channel}"\s+3\) "hello\\x00"')
        subscriber.close()
        end = time.monotonic() + PATIENCE
        while self.redis.ask(f"PUBLISH {channel} nobody") != "(integer) 0":
            assert time.monotonic() < end, "still subscribed"

    def blocking_pop(self):
        expect, list = self.redis.expect, self.key("ask")
        other = Terminal()
        other.expect(f"BLPOP {list} 0.05", "(nil)")
        for i in range(5):
            other.start(f"BRPOP {list} 20")
            expect(f"LPUSH {list} {i}", "(integer) 1")
            popped = other.answer()
            assert popped == f'1) "{list}"\n2) "{i}"', popped
        other.close()

    def hash(self):
        expect, k = self.redis.expect, self.key("hash")
        expect(f"HSET {k} name Ada age 36", "(integer) 2")
        expect(f"HGET {k} name", '"Ada"')
        expect(f"HGETALL {k}", '1) "name"\n2) "Ada"\n3) "age"\n4) "36"')
        expect(f"HINCRBY {k} age 1", "(integer) 37")
        expect(f"HDEL {k} name", "(integer) 1")
        expect(f"HGETALL {k}", '1) "age"\n2) "37"')

    def script(self):
        expect, k = self.redis.expect, self.key("script")
        expect(f"SET {k} 1", "OK")
        expect(f"GET {k}", '"1"')
        script = "\"return redis.call('INCRBY', KEYS[1], ARGV[1])\""
        expect(f"EVAL {script} 1 {k} 2", "(integer) 3")
        expect(f"GET {k}", '"3"')
        error = self.redis.ask(f"EVALSHA {'0' * 40} 1 {k} 4")
        assert error.startswith("(error) NOSCRIPT"), error
        sha = self.redis.ask(f"SCRIPT LOAD {script}").strip('"')
        expect(f"EVALSHA {sha} 1 {k} 4", "(integer) 7")
        expect(f"GET {k}", '"7"')

    def reconnect(self):
        expect, k = self.redis.expect, self.key("after")
        for how in "restart", "crash":
            print(how, flush=True)
            assert sys.stdin.readline() == "done\n"
            answer = self.redis.ask(f"SET {k} {how}")
            # Said once, or nothing at all; the next command connects again.
            if answer == "Error: Server closed the connection":
                answer = self.redis.ask(f"SET {k} {how}")
            assert answer == "OK", answer
            expect(f"GET {k}", f'"{how}"')


if __name__ == "__main__":
    version = subprocess.run(["redis-cli", "--version"], capture_output=True, text=True).stdout.strip()
    matrix = Matrix()
    atexit.register(matrix.redis.close)
    run(matrix, version)
