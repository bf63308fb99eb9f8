"""`trireme dashboard` while a test lasts."""

import http.client
import os
import re
import subprocess
from pathlib import Path


class Dashboard:
    def __init__(self, trireme, *arguments):
        self.process = subprocess.Popen([trireme, "dashboard", *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self.address = ""
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+/\?token=([\w-]+))", line):
                self.address, self.token = found.groups()
                break
        self.port = int(re.search(r":(\d+)/", self.address).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.code = self.process.wait(timeout=20)
        self.process.stdout.close()

    def processor_seconds(self):
        """That it has used so far; unlike time by the clock, it does not depend on what else the machine does."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, path, token=True, method="GET", headers=None):
        """(status, headers, body) of one request; with the token as a program brings it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Authorization": f"Bearer {self.token}"} if token else {}
        connection.request(method, path, headers={**given, **(headers or {})})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body
