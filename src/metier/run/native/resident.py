"""A program that stays in a cage for as long as somebody talks to it, instead of running to its end."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import TYPE_CHECKING

from metier.run.native import launcher, request
from metier.run.native.runner import launch, read_report

if TYPE_CHECKING:
    from metier.run.job import Job
    from metier.run.native.request import Tier

_MOST_SAID = 64 * 1024


class ResidentProcess:
    """A program in a cage whose standard input is one end of `channel`."""

    def __init__(self, job: Job, tier: Tier) -> None:
        asked = request.request_for(job, tier, is_endless=True)
        self.channel, theirs = socket.socketpair()
        self._errors, errors = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            with theirs, contextlib.ExitStack() as given:
                given.callback(os.close, errors)
                null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                given.callback(os.close, null)
                self._control, self._warden = launch(asked, (theirs.fileno(), null, errors))
        except BaseException:
            self.channel.close()
            os.close(self._errors)
            raise

    def kill(self) -> None:
        """End it at once; no harm if it has ended."""
        launcher.kill(self._warden)

    def wait(self, seconds: float) -> tuple[int, str, bytes]:
        """Wait until it is gone, and end it if that takes too long: its status, why it was ended, its errors."""
        report = self._last_words(time.monotonic() + seconds)
        self.kill()
        said = b""
        with contextlib.suppress(OSError):
            said = os.read(self._errors, _MOST_SAID)
        self._control.close()
        os.close(self._warden)
        os.close(self._errors)
        told = read_report(report)
        try:
            status = int(told.get("status", "9"))
        except ValueError:
            status = 9
        return status, told.get("killed_by", ""), said or told.get("failed", "").encode()

    def _last_words(self, deadline: float) -> bytes:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        report = b""
        while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
            data = self._control.recv(_MOST_SAID)
            report += data
            if not data or len(report) > _MOST_SAID:
                break
        return report
